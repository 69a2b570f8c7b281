"""P6: a replica gets a read offset from its leader, applies up to it, and responds."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import (
    LeaderChanged,
    NoResponse,
    ReadOffset,
    ReadOffsetResult,
    Request,
    Response,
    Send,
)
from kraftlog.raft.reads import GATHER_MS, MANY_READS, Applied, ReadDone, Reads
from tests.raft.single_core import (
    CHECK_QUORUM_TIMEOUT_MS,
    CONFIG,
    SingleCore,
    committed_leader,
    follower,
    follower_after_fetch,
    observer,
    of_kind,
    replies,
    unattached,
    voters_of,
)

TIMEOUT_MS = CONFIG.read_timeout_ms


class Reader:
    """The reads of a replica; the test acts as the leader and the state machine."""

    def __init__(self, context: SingleCore, applied: int = 0) -> None:
        self.context = context
        self.reads = Reads(context.core, applied)

    def read(self, pending: str) -> list[Any]:
        self.reads.read(pending, self.context.now)
        return self.reads.take_effects()

    def handle(self, message: Any) -> list[Any]:
        self.reads.handle(message, self.context.now)
        return self.reads.take_effects()

    def respond(self, offset: int, error: int = 0, number: int = -1) -> list[Any]:
        number = self.reads.in_flight if number < 0 else number
        epoch = self.context.core.election.epoch
        return self.handle(Response(2, number, ReadOffsetResult(error, 2, epoch, offset)))

    def wait(self, ms: int) -> list[Any]:
        self.context.pass_unpolled(ms)
        self.reads.poll(self.context.now)
        return self.reads.take_effects()

    def ms_until_deadline(self) -> int:
        deadline = self.reads.deadline()
        assert deadline is not None
        return deadline - self.context.now.monotonic_ms


def asked_peers(effects: list[Any]) -> list[int]:
    """The peers that ReadOffset requests are sent to."""
    assert all(isinstance(send.body, ReadOffset) for send in of_kind(Send, effects))
    return [send.peer for send in of_kind(Send, effects)]


def following_observer() -> SingleCore:
    context = observer()
    context.ask(context.begin_epoch(2, 5))
    return context


@pytest.mark.parametrize("make", [follower_after_fetch, following_observer])
def test_p6_a_read_is_answered_once_the_applied_offset_reaches_the_leaders(make: Any) -> None:
    reader = Reader(make(), applied=4)
    assert asked_peers(reader.read("a")) == [2]
    assert reader.respond(7) == []
    assert reader.handle(Applied(6)) == []
    assert reader.handle(Applied(9)) == [ReadDone("a", 0, 9)]
    assert reader.reads.deadline() is None


def test_p6_a_read_of_applied_records_completes_at_once() -> None:
    reader = Reader(follower_after_fetch(), applied=7)
    reader.read("a")
    assert reader.respond(7) == [ReadDone("a", 0, 7)]


def test_p6_waiting_reads_share_the_next_request_only() -> None:
    """The leader may have handled the current request before they arrived."""
    reader = Reader(follower_after_fetch(), applied=8)
    assert asked_peers(reader.read("a")) == [2]
    assert reader.read("b") == reader.read("c") == []
    effects = reader.respond(5)
    assert (of_kind(ReadDone, effects), asked_peers(effects)) == ([ReadDone("a", 0, 8)], [2])
    assert reader.respond(8) == [ReadDone("b", 0, 8), ReadDone("c", 0, 8)]


def test_p6_a_read_does_not_wait_for_an_earlier_one() -> None:
    """Its ReadOffset is sent while the earlier read waits for records to be applied."""
    reader = Reader(follower_after_fetch(), applied=0)
    reader.read("a")
    reader.respond(5)
    reader.read("b")
    reader.respond(9)
    assert reader.handle(Applied(5)) == [ReadDone("a", 0, 5)]
    assert reader.handle(Applied(9)) == [ReadDone("b", 0, 9)]


@pytest.mark.parametrize("stage", ["no leader", "asking", "after another", "applying"])
def test_p6_a_read_that_takes_too_long_fails_with_a_timeout(stage: str) -> None:
    reader = Reader(unattached() if stage == "no leader" else follower_after_fetch())
    if stage == "after another":
        reader.read("first")
        reader.wait(1)
    reader.read("a")
    if stage == "applying":
        reader.respond(7)
    assert ReadDone("a", ErrorCode.REQUEST_TIMED_OUT, -1) not in reader.wait(TIMEOUT_MS - 1)
    assert reader.ms_until_deadline() == 1
    assert ReadDone("a", ErrorCode.REQUEST_TIMED_OUT, -1) in reader.wait(1)


def test_p6_without_a_leader_a_read_waits_for_one() -> None:
    context = unattached()
    reader = Reader(context)
    assert reader.read("a") == []
    (leader_change,) = of_kind(LeaderChanged, context.ask(context.begin_epoch(3, 5)))
    assert asked_peers(reader.handle(leader_change)) == [3]


@pytest.mark.parametrize("how", ["refused", "unanswered"])
def test_p6_a_failed_read_offset_is_retried_with_backoff(how: str) -> None:
    """Within the deadline of the read."""
    reader = Reader(follower_after_fetch())
    reader.read("a")
    pauses: list[int] = []
    for _ in range(4):
        if how == "refused":
            assert reader.respond(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER) == []
        else:
            assert reader.handle(NoResponse(2, reader.reads.in_flight)) == []
        assert reader.read(f"{len(pauses)}") == []
        pauses.append(reader.ms_until_deadline())
        assert asked_peers(reader.wait(pauses[-1])) == [2]
    assert pauses[-1] > 2 * pauses[0]
    reader.handle(Applied(3))
    assert len(of_kind(ReadDone, reader.respond(3))) == 5


def test_p6_reads_are_retried_at_a_new_leader() -> None:
    """The old leader's response comes too late."""
    context = follower_after_fetch()
    reader = Reader(context, applied=9)
    reader.read("a")
    earlier_request = reader.reads.in_flight
    assert reader.read("b") == []
    (leader_change,) = of_kind(LeaderChanged, context.ask(context.begin_epoch(3, 6)))
    assert asked_peers(reader.handle(leader_change)) == [3]
    assert reader.respond(4, number=earlier_request) == []
    assert [done.pending for done in reader.respond(9)] == ["a", "b"]


def test_p6_inconsistent_cluster_id_is_not_retried() -> None:
    reader = Reader(follower_after_fetch())
    reader.read("a")
    effects = reader.respond(-1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert effects == [ReadDone("a", ErrorCode.INCONSISTENT_CLUSTER_ID, -1)]


def respond_locally(reader: Reader, effects: list[Any]) -> list[Any]:
    """Pass the only request to the replica's own core; return the core's responses."""
    (send,) = of_kind(Send, effects)
    assert send.peer == reader.context.core.me.id
    return replies(reader.context.step(Request("own", send.body)))


def test_p6_a_leaders_own_read_needs_proof_that_it_leads() -> None:
    """P5: the same proof as for reads of others."""
    context = committed_leader()
    reader = Reader(context, applied=11)
    for peer in context.core.others:
        context.ask(context.fetch(peer), channel=peer)
    bodies = respond_locally(reader, reader.read("a"))
    assert not [body for body in bodies if isinstance(body, ReadOffsetResult)]
    (body,) = replies(context.ask(context.fetch(2), channel=2))
    assert reader.handle(Response(1, reader.reads.in_flight, body)) == [ReadDone("a", 0, 11)]


def test_p6_a_leader_that_loses_its_epoch_reads_at_the_next_one() -> None:
    context = committed_leader()
    reader = Reader(context, applied=11)
    respond_locally(reader, reader.read("a"))
    effects = context.wait(CHECK_QUORUM_TIMEOUT_MS)
    (body,) = [result for result in replies(effects) if isinstance(result, ReadOffsetResult)]
    assert body.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reader.handle(Response(1, reader.reads.in_flight, body)) == []
    for leader_change in of_kind(LeaderChanged, effects):
        assert reader.handle(leader_change) == []
    (leader_change,) = of_kind(LeaderChanged, context.ask(context.begin_epoch(3, 6)))
    assert asked_peers(reader.handle(leader_change)) == [3]


def test_p6_a_sole_voter_reads_without_any_message() -> None:
    context = unattached(voters=voters_of(1))
    reader = Reader(context, applied=context.core.log.end)
    (body,) = respond_locally(reader, reader.read("a"))
    (done,) = reader.handle(Response(1, reader.reads.in_flight, body))
    assert (done.error, done.offset) == (0, context.core.log.end)


def test_p6_read_offset_carries_the_cluster_id_sender_and_epoch() -> None:
    """Q30: null while the cluster id is unknown."""
    for cluster_id in ("cluster", None):
        reader = Reader(follower(cluster_id=cluster_id))
        (send,) = of_kind(Send, reader.read("a"))
        read_at_ms = reader.context.now.wall_ms
        assert send.body == ReadOffset(cluster_id, reader.context.core.me, 5, read_at_ms)


def test_p5_read_offset_carries_the_time_of_its_oldest_read() -> None:
    """The time of the request itself would be later: these reads wait for the one in flight."""
    reader = Reader(follower_after_fetch())
    reader.read("a")
    reader.context.pass_unpolled(5)
    began_ms = reader.context.now.wall_ms
    reader.read("b")
    reader.context.pass_unpolled(5)
    reader.read("c")
    (send,) = of_kind(Send, reader.respond(8))
    assert began_ms < reader.context.now.wall_ms
    assert send.body.read_at_ms == began_ms


# Batching ------------------------------------------------------------------------------------


def read_together(reader: Reader, count: int) -> list[int]:
    """Begin reads before the effects are taken, as in one turn; return the peers asked."""
    for number in range(count):
        reader.reads.read(f"read {number}", reader.context.now)
    return asked_peers(reader.reads.take_effects())


def test_p6_reads_of_one_turn_share_a_request() -> None:
    reader = Reader(follower_after_fetch(), applied=9)
    assert read_together(reader, 3) == [2]
    assert len(of_kind(ReadDone, reader.respond(9))) == 3


def test_p6_after_a_request_for_many_reads_the_next_waits_for_as_many() -> None:
    reader = Reader(follower_after_fetch(), applied=9)
    read_together(reader, MANY_READS + 1)
    reader.respond(9)
    assert read_together(reader, 1) == []
    assert reader.ms_until_deadline() == GATHER_MS
    assert read_together(reader, MANY_READS - 1) == []
    assert read_together(reader, 1) == [2]
    assert len(of_kind(ReadDone, reader.respond(9))) == MANY_READS + 1


@pytest.mark.parametrize("when", ["during the last request", "after it"])
def test_p6_reads_wait_for_others_only_briefly(when: str) -> None:
    reader = Reader(follower_after_fetch(), applied=9)
    read_together(reader, MANY_READS)
    if when == "during the last request":
        reader.read("a")
    assert asked_peers(reader.respond(9)) == []
    if when == "after it":
        assert reader.read("a") == []
    assert reader.ms_until_deadline() == GATHER_MS
    assert asked_peers(reader.wait(GATHER_MS)) == [2]
    assert reader.respond(9) == [ReadDone("a", 0, 9)]
    assert asked_peers(reader.read("b")) == [2], "the last request was for one read"


def test_p6_after_fewer_reads_the_next_one_does_not_wait() -> None:
    reader = Reader(follower_after_fetch(), applied=9)
    read_together(reader, MANY_READS - 1)
    reader.respond(9)
    assert asked_peers(reader.read("a")) == [2]

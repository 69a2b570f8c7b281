"""P5: a leader returns a read offset only after proof that it still leads."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import Fetch, ReadOffset, ReadOffsetResult, Reply, Request, Send
from tests.raft.single_core import (
    CHECK_QUORUM_TIMEOUT_MS,
    EVERY_ROLE,
    FETCH_TIMEOUT_MS,
    SingleCore,
    committed_leader,
    follower_after_fetch,
    leader,
    of_kind,
    read_offset,
    replies,
    unattached,
    voters_of,
)

FIVE = voters_of(1, 2, 3, 4, 5)
NOT_LEADERS = {name: make for name, make in EVERY_ROLE.items() if name != "leader"}


def read_results(effects: list[Any]) -> list[Any]:
    return [body for body in replies(effects) if isinstance(body, ReadOffsetResult)]


def fetch(context: SingleCore, replica: int, channel: Any = None, **changes: Any) -> list[Any]:
    """Handle the next fetch of a replica, on its own connection unless `channel` is another."""
    return context.ask(context.fetch(replica, **changes), channel=channel or replica)


def leader_with_parked_fetches(voters: Any = None) -> SingleCore:
    """A leader with a committed record, whose voters each have a fetch parked."""
    context = committed_leader(voters=voters or voters_of(1, 2, 3))
    for peer in context.core.others:
        assert of_kind(Reply, fetch(context, peer)) == []
    return context


def test_p5_a_read_answers_parked_fetches_and_waits_for_the_next_ones() -> None:
    """Q20: it responds to them without records."""
    context = leader_with_parked_fetches()
    effects = context.ask(read_offset(), channel="client")
    assert len(replies(effects)) == 2
    assert read_results(effects) == []
    assert read_results(fetch(context, 2)) == [ReadOffsetResult(0, 1, 5, 11)]


def test_p5_a_read_leaves_parked_fetches_of_observers_alone() -> None:
    """P7: otherwise each read would make every broker fetch again."""
    context = leader_with_parked_fetches()
    assert replies(fetch(context, 9)) == replies(fetch(context, 9)) == []
    answered = replies(context.ask(read_offset(), channel="client"))
    assert len(answered) == 2, "only the fetches of voters 2 and 3"


def test_p5_two_of_four_others_must_follow_as_the_leader_counts_itself() -> None:
    context = leader_with_parked_fetches(FIVE)
    context.ask(read_offset(), channel="client")
    assert read_results(fetch(context, 4)) == []
    assert read_results(fetch(context, 4)) == []
    assert len(read_results(fetch(context, 5))) == 1


def test_p5_observers_prove_nothing() -> None:
    context = leader_with_parked_fetches()
    for _ in range(3):
        context.ask(read_offset(), channel="client")
        assert read_results(fetch(context, 8)) == read_results(fetch(context, 9)) == []


def test_p5_a_fetch_sent_before_the_read_arrived_does_not_count() -> None:
    """The previous response was sent before the read, so the next fetch may have been, too."""
    context = committed_leader()
    fetch(context, 2, max_wait_ms=0)
    context.ask(read_offset(), channel="client")
    assert read_results(fetch(context, 2)) == []
    assert len(read_results(fetch(context, 2))) == 1


def test_p5_a_fetch_on_another_connection_does_not_count() -> None:
    """Without a response before it on that connection, it may have been sent before the read."""
    context = leader_with_parked_fetches()
    context.ask(read_offset(), channel="client")
    assert read_results(fetch(context, 2, channel=7)) == []
    assert len(read_results(fetch(context, 2, channel=7))) == 1


def test_p5_a_request_repeated_late_does_not_count() -> None:
    """Its number is not above that of the answered fetch. C142."""
    context = leader_with_parked_fetches()
    context.ask(read_offset(), channel="client")
    old = Request("late", context.fetch(2), 2, 1)
    assert read_results(context.step(old)) == []


@pytest.mark.parametrize("channel", [5, 4], ids=["same connection", "abandoned connection"])
def test_p5_a_duplicate_fetch_does_not_replace_a_newer_response(channel: int) -> None:
    """Fetch 104 may have been sent before the read, after the response to 103; 105 was not."""
    context = committed_leader()
    context.step(Request("before", context.fetch(2, max_wait_ms=0), 5, 103))
    context.ask(read_offset(), channel="client")
    context.step(Request("copy", context.fetch(2), channel, 101))
    assert read_results(context.step(Request("late", context.fetch(2), channel, 102))) == []
    assert read_results(context.step(Request("late too", context.fetch(2), 5, 104))) == []
    assert len(read_results(context.step(Request("follows", context.fetch(2), 5, 105)))) == 1


@pytest.mark.parametrize(
    "changes",
    [{"epoch": 4, "last_epoch": 1}, {"epoch": 6}, {"epoch": -1}, {"cluster_id": "other"}],
    ids=str,
)
def test_p5_a_fetch_that_is_not_of_this_epoch_does_not_count(changes: dict[str, Any]) -> None:
    context = leader_with_parked_fetches()
    context.ask(read_offset(), channel="client")
    for _ in range(3):
        assert read_results(fetch(context, 2, **changes)) == []


def test_p5_the_request_of_a_voter_is_its_proof() -> None:
    """The voter sent it in this epoch after its reads began, so no fetch has to prove anything."""
    context = leader_with_parked_fetches()
    assert replies(context.ask(read_offset(replica=2, epoch=5))) == [ReadOffsetResult(0, 1, 5, 11)]


def test_p5_the_request_of_a_voter_proves_no_other_read() -> None:
    """It may have been sent before the other read began."""
    context = leader_with_parked_fetches()
    context.ask(read_offset(), channel="client")
    assert len(read_results(context.ask(read_offset(replica=2, epoch=5)))) == 1
    assert len(read_results(fetch(context, 2))) == 1


def test_p5_of_five_one_more_must_follow_the_voter_that_asks() -> None:
    context = leader_with_parked_fetches(FIVE)
    assert read_results(context.ask(read_offset(replica=2, epoch=5))) == []
    assert read_results(fetch(context, 2)) == [], "a voter counts once"
    assert len(read_results(fetch(context, 3))) == 1


@pytest.mark.parametrize(
    "request_",
    [
        read_offset(replica=9, epoch=5),
        read_offset(replica=2, epoch=4),
        read_offset(replica=2, epoch=6),
        read_offset(replica=2),
        read_offset(replica=1, epoch=5),
        ReadOffset("cluster", ReplicaKey(2, b"another disk....")),
        ReadOffset("cluster", ReplicaKey(2, b"another disk...."), 5),
    ],
    ids=[
        "observer",
        "older",
        "newer",
        "no epoch",
        "the leader",
        "directory, no epoch",
        "directory",
    ],
)
def test_p5_other_requests_prove_nothing(request_: ReadOffset) -> None:
    context = leader_with_parked_fetches()
    assert read_results(context.ask(request_)) == []
    assert len(read_results(fetch(context, 3))) == 1


def test_p5_no_read_before_the_first_commit_of_the_epoch() -> None:
    """C142, C143."""
    context = leader(voters=FIVE)
    context.ask(read_offset(), channel="client")
    for _ in range(3):
        for replica in (2, 3):
            assert read_results(fetch(context, replica, offset=10, last_epoch=1)) == []
    assert read_results(fetch(context, 2)) == []
    assert read_results(fetch(context, 3)) == [ReadOffsetResult(0, 1, 5, 11)]


def test_p5_a_read_returns_the_high_watermark_at_its_response() -> None:
    context = leader_with_parked_fetches(FIVE)
    context.ask(read_offset(), channel="client")
    context.propose("a")
    context.step()
    fetch(context, 2)
    fetch(context, 2)
    assert read_results(fetch(context, 3)) == [ReadOffsetResult(0, 1, 5, 12)]


def test_p5_each_read_needs_its_own_proof() -> None:
    context = leader_with_parked_fetches()
    context.ask(read_offset(), channel="client")
    context.ask(read_offset(), channel="client")
    assert (
        len(read_results(fetch(context, 2))) == 1
    )  # follows a response sent between the two reads
    assert len(read_results(fetch(context, 2))) == 1


def test_p5_a_sole_voter_answers_at_once() -> None:
    context = unattached(voters=voters_of(1))
    answer = context.response_to(read_offset())
    assert (answer.error, answer.offset) == (0, context.core.log.end)


def test_p5_a_sole_voter_also_waits_for_a_record_of_its_epoch() -> None:
    context = unattached(voters=voters_of(1), slow_disk=True)
    context.persist()
    assert read_results(context.ask(read_offset())) == []
    assert len(read_results(context.flush())) == 1


@pytest.mark.parametrize("make", NOT_LEADERS.values(), ids=NOT_LEADERS)
def test_p5_a_non_leader_returns_not_leader(make: Any) -> None:
    context = make()
    leader_id = context.core.election.leader_id
    assert context.response_to(read_offset()) == ReadOffsetResult(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id, 5, -1
    )


@pytest.mark.parametrize(
    ("cluster_id", "error"),
    [("other", ErrorCode.INCONSISTENT_CLUSTER_ID), ("cluster", 0), (None, 0)],
)
def test_p5_a_read_of_another_cluster_is_refused(cluster_id: str | None, error: int) -> None:
    """Q30: null skips the check."""
    context = unattached(voters=voters_of(1))
    assert context.response_to(read_offset(cluster_id)).error == error


@pytest.mark.parametrize("how", ["newer epoch", "silence", "shutdown"])
def test_p5_losing_leadership_fails_pending_reads(how: str) -> None:
    """Q11 too."""
    context = leader_with_parked_fetches()
    context.ask(read_offset(), channel="client")
    if how == "newer epoch":
        effects = context.ask(context.vote(2, epoch=6))
    elif how == "silence":
        effects = context.wait(CHECK_QUORUM_TIMEOUT_MS)
    else:
        effects = context.shut_down()
    (answer,) = read_results(effects)
    assert (answer.error, answer.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_q20_a_voters_fetch_is_parked_again_after_its_proof() -> None:
    """A read that waits for other voters must not make it fetch without pause."""
    context = leader_with_parked_fetches(FIVE)
    context.ask(read_offset(), channel="client")
    assert of_kind(Reply, fetch(context, 2)) == []
    assert of_kind(Reply, fetch(context, 9)) == []  # an observer's fetch proves nothing
    effects = context.ask(read_offset(), channel="client")
    assert len(replies(effects)) == 1  # the new read needs another proof


# Connections of followers ---------------------------------------------------------------------


def test_p5_a_retry_before_the_response_takes_a_new_connection() -> None:
    """Two old fetches on one connection would look like a fetch after a response. C117."""
    context = follower_after_fetch()
    assert isinstance(context.core.peer(2).request, Fetch)
    requests = of_kind(Send, context.wait(FETCH_TIMEOUT_MS))
    assert [(send.peer, send.needs_new_connection) for send in requests] == [(2, True), (3, False)]
    context.respond(3, context.vote_result(False))
    (repeated,) = of_kind(Send, context.respond(2, context.vote_result(False)))
    assert isinstance(repeated.body, Fetch)
    assert not repeated.needs_new_connection, "the abandoned fetch is on another connection"


def test_p5_after_a_response_the_connection_is_kept() -> None:
    context = follower_after_fetch()
    (following,) = of_kind(Send, context.respond(2, context.fetch_result()))
    assert not following.needs_new_connection

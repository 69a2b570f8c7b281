"""Q38: snapshots bound the log, and bring lagging replicas up to date."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, VoterHistory
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import (
    ClusterIdKnown,
    DropPrefix,
    ElectionState,
    Fetch,
    FetchResult,
    InstallSnapshot,
    Reply,
    Request,
    Response,
    SnapshotChunk,
    SnapshotDamaged,
    SnapshotFetch,
    SnapshotInstalled,
    SnapshotTaken,
    WriteSnapshot,
)
from kraftlog.types import OffsetAndEpoch
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    CONFIG,
    FETCH,
    SingleCore,
    batch,
    committed_leader,
    follower,
    follower_after_fetch,
    key,
    leader,
    observer,
    of,
    resigned,
    sends,
    voters_of,
)


def with_snapshot(*ids: int, voters: tuple[int, ...], cut_off: int = 0) -> CoreNetwork:
    """A quorum whose leader has its first records only in a snapshot."""
    net = CoreNetwork(*ids, voters=voters)
    if cut_off:
        net.isolate(cut_off)
    net.pass_time(5000)
    leader = net.leader()
    for number in range(21):
        leader.propose(number, 1, 10, None, net.now)
    net.deliver_all()
    net.hosts[leader.me.id].take_snapshot()
    for number in range(3):
        leader.propose(number, 1, 10, None, net.now)
    net.deliver_all()
    return net


@pytest.mark.parametrize("late", [3, 4], ids=["voter", "observer"])
def test_q38_a_new_replica_fetches_the_snapshot_and_then_the_log(late: int) -> None:
    """C98."""
    net = with_snapshot(1, 2, 3, 4, voters=(1, 2, 3), cut_off=late)
    leader, newcomer = net.leader(), net.core(late)
    assert newcomer.log.end == 0
    net.heal()
    net.pass_time(5000)
    assert newcomer.log.start == leader.log.start > 0
    assert newcomer.log.end == newcomer.log.high_watermark == leader.log.end
    assert net.hosts[late].snapshot[1] == bytes(leader.log.start)
    assert newcomer.log.voter_set == leader.log.voter_set
    assert newcomer.log.last_epoch == leader.log.last_epoch


def test_q38_the_log_starts_at_the_end_of_the_own_snapshot() -> None:
    net = with_snapshot(1, 2, 3, voters=(1, 2, 3))
    host = net.hosts[net.leader().me.id]
    assert host.core.log.start == host.batches[0].base_offset
    assert host.core.log.epochs.starts[0] == host.core.log.start


@pytest.mark.parametrize(
    ("offset", "last_epoch", "needs"),
    [(0, 0, True), (5, 1, True), (23, 0, True), (23, 1, False), (24, 1, False)],
)
def test_q38_a_fetch_that_needs_the_snapshot_gets_its_id(
    offset: int, last_epoch: int, needs: bool
) -> None:
    """C95."""
    net = with_snapshot(1, voters=(1,))
    leader = net.leader()
    assert leader.log.snapshot == OffsetAndEpoch(23, 1)
    fetch = Fetch("cluster", ReplicaKey(9), 1, offset, last_epoch, -1, 0, 1000)
    leader.handle(Request("it", fetch), net.now)
    net.settle()
    (answer,) = [body for slot, body in net.replies if slot == "it"]
    assert isinstance(answer, FetchResult)
    assert answer.snapshot == (leader.log.snapshot if needs else None)


def response_after_snapshot(offset: int, last_epoch: int) -> Any:
    """The response of a leader whose log starts at a snapshot with end offset 10 and epoch 1."""
    context = committed_leader()
    context.step(SnapshotTaken(OffsetAndEpoch(10, 1)))
    return context.asked(context.fetch(offset=offset, last_epoch=last_epoch, max_wait_ms=0))


@pytest.mark.parametrize("last_epoch", [0, 2, 3])
def test_q38_a_diverging_log_of_the_snapshots_length_gets_it(last_epoch: int) -> None:
    """Its records are not the leader's: appending would join two different logs."""
    assert response_after_snapshot(10, last_epoch).snapshot == OffsetAndEpoch(10, 1)
    assert response_after_snapshot(10, 1).snapshot is None


def test_q38_a_log_of_an_older_epoch_than_the_snapshot_gets_it() -> None:
    """At any length: it diverges before the snapshot's end."""
    assert response_after_snapshot(11, 0).snapshot == OffsetAndEpoch(10, 1)
    assert response_after_snapshot(11, 0).diverging is None
    assert response_after_snapshot(11, 1).diverging == OffsetAndEpoch(10, 1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"id": OffsetAndEpoch(5, 1)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"max_bytes": -1}, ErrorCode.INVALID_REQUEST),
        ({}, ErrorCode.NONE),
    ],
)
def test_q38_a_chunk_is_refused_with_kafkas_codes(change: dict[str, object], error: int) -> None:
    """C85, C96."""
    net = with_snapshot(1, voters=(1,))
    good = SnapshotFetch("cluster", ReplicaKey(9), 1, OffsetAndEpoch(23, 1), 0, 100)
    net.leader().handle(Request("it", good.replace(**change)), net.now)
    net.settle()
    (answer,) = [body for slot, body in net.replies if slot == "it"]
    assert isinstance(answer, SnapshotChunk)
    assert answer.error == error


def test_q38_another_leader_abandons_a_download() -> None:
    """C101."""
    net = with_snapshot(1, 2, 3, 4, voters=(1, 2, 3), cut_off=4)
    late = net.core(4)
    first = net.leader()
    net.heal()
    net.now = net.now.replace(monotonic_ms=late.deadline() or 0)
    late.poll(net.now)
    for _ in range(100):
        net.settle()
        if any(isinstance(send.body, SnapshotFetch) for _, _, send in net.wire):
            break
        if net.wire:
            net.deliver(net.wire.pop(0))
        elif net.replies:
            net.answer(*net.replies.pop(0))
        else:
            net.pass_time(10)
    assert any(isinstance(send.body, SnapshotFetch) for _, _, send in net.wire)
    net.isolate(first.me.id)
    net.pass_time(20_000)
    assert net.leader() is not first
    assert late.log.end == late.log.high_watermark == net.leader().log.end


# A single follower ---------------------------------------------------------------------------

BEHIND = OffsetAndEpoch(30, 4)


def downloading(**how: Any) -> SingleCore:
    """A follower whose log ends before the leader's log start; it has requested the first chunk."""
    context = follower_after_fetch(**how)
    (asked,) = sends(context.answer(2, context.fetched(snapshot=BEHIND))).values()
    assert asked == SnapshotFetch(context.core.cluster_id, key(1), 5, BEHIND, 0, 8 << 20)
    return context


def chunk(position: int, data: bytes, size: int = 10, **changes: Any) -> SnapshotChunk:
    whole = SnapshotChunk(0, 2, 5, BEHIND, position, 0, size, len(data), data)
    return whole.replace(**changes)


def test_q38_an_interrupted_download_continues_at_its_position() -> None:
    """C99."""
    context = downloading()
    effects = context.answer(2, chunk(0, b"abcd"))
    assert of(WriteSnapshot, effects) == [WriteSnapshot(BEHIND, 0, b"abcd")]
    assert sends(effects)[2].position == 4
    context.unanswered(2)
    assert sends(context.wait_for("fetch"))[2].position == 4
    effects = context.answer(2, chunk(4, b"efghij"))
    assert of(WriteSnapshot, effects) == [WriteSnapshot(BEHIND, 4, b"efghij")]
    assert of(InstallSnapshot, effects) == [InstallSnapshot(BEHIND)]


def test_q9a_a_snapshot_chunk_resets_the_fetch_timeout() -> None:
    """C66: each chunk resets the fetch timeout, an error does not."""
    context = downloading()
    context.wait(FETCH - 1)
    context.answer(2, chunk(0, b"abcd"))
    assert context.in_ms("fetch timeout") == FETCH
    context.wait(FETCH - 1)
    context.answer(2, chunk(4, b"", error=ErrorCode.SNAPSHOT_NOT_FOUND))
    assert context.in_ms("fetch timeout") == 1


@pytest.mark.parametrize(
    "answer",
    [
        chunk(0, b"", error=ErrorCode.SNAPSHOT_NOT_FOUND),
        chunk(0, b"", error=ErrorCode.POSITION_OUT_OF_RANGE),
        chunk(0, b"abcd", id=OffsetAndEpoch(31, 4)),
        chunk(2, b"abcd"),
        chunk(0, b""),
    ],
    ids=["missing", "out of range", "another", "another position", "nothing"],
)
def test_q38_a_download_that_does_not_fit_is_abandoned_and_a_fetch_follows(
    answer: SnapshotChunk,
) -> None:
    """C100."""
    context = downloading()
    effects = context.answer(2, answer)
    assert of(WriteSnapshot, effects) == []
    fetch = sends(context.wait_for("fetch"))[2]
    assert isinstance(fetch, Fetch)
    assert fetch.offset == 10


@pytest.mark.parametrize("epoch", [5, 6])
def test_q38_a_chunk_that_comes_late_is_ignored(epoch: int) -> None:
    """C101, C68: the leader has changed, or there is none."""
    context = downloading()
    late = context.core.peer(2).in_flight
    if epoch == 5:
        context.wait(FETCH)
    else:
        context.ask(context.begin(3, 6))
    assert context.step(Response(2, late, chunk(0, b"abcdefghij"))) == []


def test_q38_a_complete_snapshot_replaces_the_log() -> None:
    """C102: the old log is gone, and the next fetch begins at the snapshot's end."""
    context = downloading()
    context.answer(2, chunk(0, b"abcdefghij"))
    effects = context.step(SnapshotInstalled(BEHIND, voters_of(1, 2, 3)))
    log = context.core.log
    assert (log.start, log.end, log.high_watermark, log.last_epoch) == (30, 30, 30, 4)
    fetch = sends(effects)[2]
    assert (fetch.offset, fetch.last_epoch) == (30, 4)


@pytest.mark.parametrize("taken", [OffsetAndEpoch(9, 1), OffsetAndEpoch(6, 2)])
def test_q38_a_snapshot_holds_what_is_committed_and_ends_in_its_epoch(
    taken: OffsetAndEpoch,
) -> None:
    """C103: anything else is an assertion."""
    context = follower(high_watermark=8)
    with pytest.raises(AssertionError):
        context.step(SnapshotTaken(taken))
    assert of(DropPrefix, context.step(SnapshotTaken(OffsetAndEpoch(8, 1)))) == [DropPrefix(8)]


@pytest.mark.parametrize("make", [follower, observer, resigned])
def test_q38_a_non_leader_serves_no_snapshot(make: Any) -> None:
    """C96: it names the leader."""
    context = make()
    answer = context.asked(SnapshotFetch("cluster", key(3), 5, BEHIND, 0, 100))
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader_id == context.core.election.leader_id


CHUNK_LIMIT = RaftConfig().max_snapshot_bytes


@pytest.mark.parametrize("max_bytes", [1, 4096, 2**31 - 1])
def test_q38_a_chunk_is_bounded_by_request_and_config(max_bytes: int) -> None:
    """C98: the core gives position and length, its host fills in the bytes."""
    net = with_snapshot(1, voters=(1,))
    asked = SnapshotFetch("cluster", ReplicaKey(9), 1, OffsetAndEpoch(23, 1), 3, max_bytes)
    leading = net.leader()
    leading.handle(Request("it", asked), net.now)
    (answer,) = [effect.body for effect in leading.take_effects() if isinstance(effect, Reply)]
    assert (answer.error, answer.position, answer.max_bytes) == (0, 3, min(max_bytes, CHUNK_LIMIT))


# Installing -------------------------------------------------------------------------------------


def installing(**how: Any) -> SingleCore:
    """The snapshot is complete; the host is replacing the log with it."""
    context = downloading(**how)
    assert of(InstallSnapshot, context.answer(2, chunk(0, b"abcdefghij"))) == [
        InstallSnapshot(BEHIND)
    ]
    return context


def installing_without_a_leader() -> SingleCore:
    """An observer whose leader is gone while the host installs the snapshot."""
    context = SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    context.answer(2, context.fetched(snapshot=BEHIND))
    context.answer(2, chunk(0, b"abcdefghij"))
    assert context.core.log.installing == BEHIND
    context.gone(2)
    return context


def test_q38_nothing_is_fetched_while_a_snapshot_is_installed() -> None:
    """C102: fetched records would follow records that are about to be deleted."""
    context = installing()
    assert sends(context.ask(context.begin(3, 6))) == {}
    assert context.role == "follower"
    effects = context.step(SnapshotInstalled(BEHIND, voters_of(1, 2, 3)))
    fetch = sends(effects)[3]
    assert (fetch.epoch, fetch.offset, fetch.last_epoch) == (6, 30, 4)


def test_q38_after_an_install_without_a_leader_nothing_is_fetched() -> None:
    context = installing_without_a_leader()
    assert context.core.election.leader_id == -1
    assert sends(context.step(SnapshotInstalled(BEHIND, voters_of(1, 2, 3)))) == {}
    assert context.core.log.start == 30


def test_q38_a_corrupt_snapshot_is_fetched_again_after_a_backoff() -> None:
    """From its beginning, after a normal fetch; the log is unchanged."""
    context = installing()
    before = context.core.log.end
    assert sends(context.step(SnapshotDamaged(BEHIND))) == {}
    fetch = sends(context.wait(CONFIG.retry_backoff_max_ms))[2]
    assert (type(fetch), fetch.offset, before) == (Fetch, before, 10)
    again = sends(context.answer(2, context.fetched(snapshot=BEHIND)))[2]
    assert (type(again), again.position) == (SnapshotFetch, 0)


def test_q38_a_report_about_an_abandoned_snapshot_is_ignored() -> None:
    context = installing()
    context.step(SnapshotDamaged(OffsetAndEpoch(31, 4)))
    assert context.core.log.installing == BEHIND


def test_q38_without_a_leader_a_corrupt_snapshot_is_not_fetched() -> None:
    context = installing_without_a_leader()
    timers = set(context.core.timers)
    assert sends(context.step(SnapshotDamaged(BEHIND))) == {}
    assert set(context.core.timers) == timers


def test_q29_a_snapshot_contains_the_cluster_id() -> None:
    context = installing(cluster_id=None)
    voters = voters_of(1, 2, 3).replace(cluster_id="cluster")
    effects = context.step(SnapshotInstalled(BEHIND, voters))
    assert of(ClusterIdKnown, effects) == [ClusterIdKnown("cluster")]
    assert sends(effects)[2].cluster_id == "cluster"


def test_q38_a_snapshot_without_new_records_is_not_fetched() -> None:
    """A normal fetch follows: without one the voter would depose a live leader."""
    context = follower_after_fetch(high_watermark=8)
    effects = context.answer(2, context.fetched(snapshot=OffsetAndEpoch(8, 1)))
    assert sends(effects) == {}
    assert isinstance(sends(context.wait_for("fetch"))[2], Fetch)


def test_q12_a_log_without_records_is_in_the_epoch_of_its_snapshot() -> None:
    """Also after a truncation to the snapshot: otherwise it would vote for an older log."""
    context = downloading()
    context.answer(2, chunk(0, b"abcdefghij"))
    context.step(SnapshotInstalled(BEHIND, voters_of(1, 2, 3)))
    context.answer(2, context.fetched(batch(30, 5)))
    assert context.core.log.last_epoch == 5
    context.ask(context.begin(3, 6))
    context.answer(3, context.fetched(leader_id=3, epoch=6, diverging=BEHIND))
    log = context.core.log
    assert (log.end, log.last_epoch) == (30, 4)
    answer = context.asked(context.vote(2, epoch=7, last_epoch=3, end_offset=99))
    assert not answer.granted


def test_q12_a_log_recovered_after_a_snapshot_is_in_its_epoch() -> None:
    log = RaftLog(VoterHistory(voters_of(1)), end=30, snapshot=BEHIND)
    assert (log.start, log.end, log.high_watermark, log.last_epoch) == (30, 30, 30, 4)
    assert log.copy().key() == log.key()


def test_q38_a_leader_loads_no_snapshot() -> None:
    context = leader()
    with pytest.raises(AssertionError, match="holds every committed record"):
        context.step(SnapshotInstalled(BEHIND, voters_of(1, 2, 3)))

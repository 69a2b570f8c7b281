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
    FETCH_TIMEOUT_MS,
    SingleCore,
    batch,
    committed_leader,
    follower,
    follower_after_fetch,
    key,
    leader,
    observer,
    of_kind,
    resigned,
    sends,
    voters_of,
)


def network_with_snapshot(*ids: int, voters: tuple[int, ...], cut_off: int = 0) -> CoreNetwork:
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


@pytest.mark.parametrize("replica_id", [3, 4], ids=["voter", "observer"])
def test_q38_a_new_replica_fetches_the_snapshot_and_then_the_log(replica_id: int) -> None:
    """C98."""
    net = network_with_snapshot(1, 2, 3, 4, voters=(1, 2, 3), cut_off=replica_id)
    leader, newcomer = net.leader(), net.core(replica_id)
    assert newcomer.log.end == 0
    net.heal()
    net.pass_time(5000)
    assert newcomer.log.start == leader.log.start > 0
    assert newcomer.log.end == newcomer.log.high_watermark == leader.log.end
    assert net.hosts[replica_id].snapshot[1] == bytes(leader.log.start)
    assert newcomer.log.voter_set == leader.log.voter_set
    assert newcomer.log.last_epoch == leader.log.last_epoch


def test_q38_a_leaders_log_starts_at_the_end_of_its_snapshot() -> None:
    net = network_with_snapshot(1, 2, 3, voters=(1, 2, 3))
    host = net.hosts[net.leader().me.id]
    assert host.core.log.start == host.batches[0].base_offset
    assert host.core.log.epochs.starts[0] == host.core.log.start


@pytest.mark.parametrize(
    ("offset", "last_epoch", "needs_snapshot"),
    [(0, 0, True), (5, 1, True), (23, 0, True), (23, 1, False), (24, 1, False)],
)
def test_q38_a_fetch_that_needs_the_snapshot_gets_its_id(
    offset: int, last_epoch: int, needs_snapshot: bool
) -> None:
    """C95."""
    net = network_with_snapshot(1, voters=(1,))
    leader = net.leader()
    assert leader.log.snapshot == OffsetAndEpoch(23, 1)
    fetch = Fetch("cluster", ReplicaKey(9), 1, offset, last_epoch, -1, 0, 1000)
    leader.handle(Request("fetch", fetch), net.now)
    net.settle()
    (answer,) = [body for pending, body in net.replies if pending == "fetch"]
    assert isinstance(answer, FetchResult)
    assert answer.snapshot == (leader.log.snapshot if needs_snapshot else None)


def response_after_snapshot(offset: int, last_epoch: int) -> Any:
    """The response of a leader whose log starts at a snapshot with end offset 10 and epoch 1."""
    context = committed_leader()
    context.step(SnapshotTaken(OffsetAndEpoch(10, 1)))
    return context.response_to(context.fetch(offset=offset, last_epoch=last_epoch, max_wait_ms=0))


@pytest.mark.parametrize("last_epoch", [0, 2, 3])
def test_q38_a_diverging_log_of_the_snapshots_length_gets_it(last_epoch: int) -> None:
    """Its records differ from the leader's, so it must not append the leader's next records."""
    assert response_after_snapshot(10, last_epoch).snapshot == OffsetAndEpoch(10, 1)
    assert response_after_snapshot(10, 1).snapshot is None


def test_q38_a_log_of_an_older_epoch_than_the_snapshot_gets_it() -> None:
    """Whatever its length, it diverges before the snapshot's end."""
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
def test_q38_fetch_snapshot_is_refused_with_kafkas_error_codes(
    change: dict[str, object], error: int
) -> None:
    """C85, C96."""
    net = network_with_snapshot(1, voters=(1,))
    valid = SnapshotFetch("cluster", ReplicaKey(9), 1, OffsetAndEpoch(23, 1), 0, 100)
    net.leader().handle(Request("fetch", valid.replace(**change)), net.now)
    net.settle()
    (answer,) = [body for pending, body in net.replies if pending == "fetch"]
    assert isinstance(answer, SnapshotChunk)
    assert answer.error == error


def test_q38_another_leader_abandons_a_download() -> None:
    """C101."""
    net = network_with_snapshot(1, 2, 3, 4, voters=(1, 2, 3), cut_off=4)
    observer = net.core(4)
    first = net.leader()
    net.heal()
    net.now = net.now.replace(monotonic_ms=observer.deadline() or 0)
    observer.poll(net.now)
    for _ in range(100):
        net.settle()
        if any(isinstance(send.body, SnapshotFetch) for _, _, send in net.wire):
            break
        if net.wire:
            net.deliver(net.wire.pop(0))
        elif net.replies:
            net.deliver_reply(*net.replies.pop(0))
        else:
            net.pass_time(10)
    assert any(isinstance(send.body, SnapshotFetch) for _, _, send in net.wire)
    net.isolate(first.me.id)
    net.pass_time(20_000)
    assert net.leader() is not first
    assert observer.log.end == observer.log.high_watermark == net.leader().log.end


# A single follower ---------------------------------------------------------------------------

SNAPSHOT = OffsetAndEpoch(30, 4)


def follower_downloading(**options: Any) -> SingleCore:
    """A follower whose log ends before the leader's log start; it has requested the first chunk."""
    context = follower_after_fetch(**options)
    (request,) = sends(context.respond(2, context.fetch_result(snapshot=SNAPSHOT))).values()
    assert request == SnapshotFetch(context.core.cluster_id, key(1), 5, SNAPSHOT, 0, 8 << 20)
    return context


def chunk(position: int, data: bytes, size: int = 10, **changes: Any) -> SnapshotChunk:
    result = SnapshotChunk(0, 2, 5, SNAPSHOT, position, 0, size, len(data), data)
    return result.replace(**changes)


def test_q38_an_interrupted_download_continues_at_its_position() -> None:
    """C99."""
    context = follower_downloading()
    effects = context.respond(2, chunk(0, b"abcd"))
    assert of_kind(WriteSnapshot, effects) == [WriteSnapshot(SNAPSHOT, 0, b"abcd")]
    assert sends(effects)[2].position == 4
    context.no_response(2)
    assert sends(context.wait_for("fetch"))[2].position == 4
    effects = context.respond(2, chunk(4, b"efghij"))
    assert of_kind(WriteSnapshot, effects) == [WriteSnapshot(SNAPSHOT, 4, b"efghij")]
    assert of_kind(InstallSnapshot, effects) == [InstallSnapshot(SNAPSHOT)]


def test_q9a_a_snapshot_chunk_resets_the_fetch_timeout() -> None:
    """C66: each chunk resets the fetch timeout, an error does not."""
    context = follower_downloading()
    context.wait(FETCH_TIMEOUT_MS - 1)
    context.respond(2, chunk(0, b"abcd"))
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS
    context.wait(FETCH_TIMEOUT_MS - 1)
    context.respond(2, chunk(4, b"", error=ErrorCode.SNAPSHOT_NOT_FOUND))
    assert context.ms_until("fetch timeout") == 1


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
    context = follower_downloading()
    effects = context.respond(2, answer)
    assert of_kind(WriteSnapshot, effects) == []
    fetch = sends(context.wait_for("fetch"))[2]
    assert isinstance(fetch, Fetch)
    assert fetch.offset == 10


@pytest.mark.parametrize("epoch", [5, 6])
def test_q38_a_late_chunk_is_ignored(epoch: int) -> None:
    """C101, C68: the leader has changed, or there is none."""
    context = follower_downloading()
    earlier_request = context.core.peer(2).in_flight
    if epoch == 5:
        context.wait(FETCH_TIMEOUT_MS)
    else:
        context.ask(context.begin_epoch(3, 6))
    assert context.step(Response(2, earlier_request, chunk(0, b"abcdefghij"))) == []


def test_q38_a_complete_snapshot_replaces_the_log() -> None:
    """C102: the old log is dropped, and the next fetch begins at the snapshot's end."""
    context = follower_downloading()
    context.respond(2, chunk(0, b"abcdefghij"))
    effects = context.step(SnapshotInstalled(SNAPSHOT, voters_of(1, 2, 3)))
    log = context.core.log
    assert (log.start, log.end, log.high_watermark, log.last_epoch) == (30, 30, 30, 4)
    fetch = sends(effects)[2]
    assert (fetch.offset, fetch.last_epoch) == (30, 4)


@pytest.mark.parametrize("taken", [OffsetAndEpoch(9, 1), OffsetAndEpoch(6, 2)])
def test_q38_a_snapshot_of_uncommitted_records_or_a_wrong_epoch_fails(
    taken: OffsetAndEpoch,
) -> None:
    """C103: a core refuses to take it, by an assertion."""
    context = follower(high_watermark=8)
    with pytest.raises(AssertionError):
        context.step(SnapshotTaken(taken))
    assert of_kind(DropPrefix, context.step(SnapshotTaken(OffsetAndEpoch(8, 1)))) == [DropPrefix(8)]


@pytest.mark.parametrize("make", [follower, observer, resigned])
def test_q38_a_non_leader_serves_no_snapshot(make: Any) -> None:
    """C96: it names the leader."""
    context = make()
    answer = context.response_to(SnapshotFetch("cluster", key(3), 5, SNAPSHOT, 0, 100))
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader_id == context.core.election.leader_id


CHUNK_LIMIT_BYTES = RaftConfig().max_snapshot_bytes


@pytest.mark.parametrize("max_bytes", [1, 4096, 2**31 - 1])
def test_q38_a_chunk_is_bounded_by_request_and_config(max_bytes: int) -> None:
    """C98: the core sets position and limit, and its host fills in the bytes."""
    net = network_with_snapshot(1, voters=(1,))
    request = SnapshotFetch("cluster", ReplicaKey(9), 1, OffsetAndEpoch(23, 1), 3, max_bytes)
    core = net.leader()
    core.handle(Request("fetch", request), net.now)
    (answer,) = [effect.body for effect in core.take_effects() if isinstance(effect, Reply)]
    assert (answer.error, answer.position, answer.max_bytes) == (
        0,
        3,
        min(max_bytes, CHUNK_LIMIT_BYTES),
    )


# Installing -------------------------------------------------------------------------------------


def follower_installing(**options: Any) -> SingleCore:
    """The snapshot is complete; the host is replacing the log with it."""
    context = follower_downloading(**options)
    assert of_kind(InstallSnapshot, context.respond(2, chunk(0, b"abcdefghij"))) == [
        InstallSnapshot(SNAPSHOT)
    ]
    return context


def installing_without_a_leader() -> SingleCore:
    """An observer whose leader dies while the host installs the snapshot."""
    context = SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    context.respond(2, context.fetch_result(snapshot=SNAPSHOT))
    context.respond(2, chunk(0, b"abcdefghij"))
    assert context.core.log.installing == SNAPSHOT
    context.lose_peer(2)
    return context


def test_q38_nothing_is_fetched_while_a_snapshot_is_installed() -> None:
    """C102: fetched records would follow records that are about to be deleted."""
    context = follower_installing()
    assert sends(context.ask(context.begin_epoch(3, 6))) == {}
    assert context.role == "follower"
    effects = context.step(SnapshotInstalled(SNAPSHOT, voters_of(1, 2, 3)))
    fetch = sends(effects)[3]
    assert (fetch.epoch, fetch.offset, fetch.last_epoch) == (6, 30, 4)


def test_q38_after_an_install_without_a_leader_nothing_is_fetched() -> None:
    context = installing_without_a_leader()
    assert context.core.election.leader_id == -1
    assert sends(context.step(SnapshotInstalled(SNAPSHOT, voters_of(1, 2, 3)))) == {}
    assert context.core.log.start == 30


def test_q38_a_corrupt_snapshot_is_fetched_again_after_a_backoff() -> None:
    """It is fetched from its beginning, after a normal fetch; the log is unchanged."""
    context = follower_installing()
    before = context.core.log.end
    assert sends(context.step(SnapshotDamaged(SNAPSHOT))) == {}
    fetch = sends(context.wait(CONFIG.retry_backoff_max_ms))[2]
    assert (type(fetch), fetch.offset, before) == (Fetch, before, 10)
    next_request = sends(context.respond(2, context.fetch_result(snapshot=SNAPSHOT)))[2]
    assert (type(next_request), next_request.position) == (SnapshotFetch, 0)


def test_q38_a_report_about_an_abandoned_snapshot_is_ignored() -> None:
    context = follower_installing()
    context.step(SnapshotDamaged(OffsetAndEpoch(31, 4)))
    assert context.core.log.installing == SNAPSHOT


def test_q38_without_a_leader_a_corrupt_snapshot_is_not_fetched() -> None:
    context = installing_without_a_leader()
    timers = set(context.core.timers)
    assert sends(context.step(SnapshotDamaged(SNAPSHOT))) == {}
    assert set(context.core.timers) == timers


def test_q29_a_snapshot_contains_the_cluster_id() -> None:
    context = follower_installing(cluster_id=None)
    voters = voters_of(1, 2, 3).replace(cluster_id="cluster")
    effects = context.step(SnapshotInstalled(SNAPSHOT, voters))
    assert of_kind(ClusterIdKnown, effects) == [ClusterIdKnown("cluster")]
    assert sends(effects)[2].cluster_id == "cluster"


def test_q38_a_snapshot_without_new_records_is_not_fetched() -> None:
    """A normal fetch follows; without it the voter would time out and depose the leader."""
    context = follower_after_fetch(high_watermark=8)
    effects = context.respond(2, context.fetch_result(snapshot=OffsetAndEpoch(8, 1)))
    assert sends(effects) == {}
    assert isinstance(sends(context.wait_for("fetch"))[2], Fetch)


def test_q12_a_log_without_records_is_in_the_epoch_of_its_snapshot() -> None:
    """Also after a truncation to the snapshot, or the replica would vote for an older log."""
    context = follower_downloading()
    context.respond(2, chunk(0, b"abcdefghij"))
    context.step(SnapshotInstalled(SNAPSHOT, voters_of(1, 2, 3)))
    context.respond(2, context.fetch_result(batch(30, 5)))
    assert context.core.log.last_epoch == 5
    context.ask(context.begin_epoch(3, 6))
    context.respond(3, context.fetch_result(leader_id=3, epoch=6, diverging=SNAPSHOT))
    log = context.core.log
    assert (log.end, log.last_epoch) == (30, 4)
    answer = context.response_to(context.vote(2, epoch=7, last_epoch=3, end_offset=99))
    assert not answer.granted


def test_q12_a_log_recovered_after_a_snapshot_is_in_the_snapshots_epoch() -> None:
    log = RaftLog(VoterHistory(voters_of(1)), end=30, snapshot=SNAPSHOT)
    assert (log.start, log.end, log.high_watermark, log.last_epoch) == (30, 30, 30, 4)
    assert log.copy().key() == log.key()


def test_q38_a_leader_installs_no_snapshot() -> None:
    context = leader()
    with pytest.raises(AssertionError, match="holds every committed record"):
        context.step(SnapshotInstalled(SNAPSHOT, voters_of(1, 2, 3)))

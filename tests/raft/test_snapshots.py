"""Q38: snapshots bound the log, and bring up who has fallen behind it."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import Asked, Fetch, FetchAnswer, SnapshotChunk, SnapshotFetch
from kraftlog.types import OffsetAndEpoch
from tests.raft.trio import Net


def with_snapshot(*ids: int, voters: tuple[int, ...], cut_off: int = 0) -> Net:
    """A quorum whose leader holds its first records in a snapshot alone."""
    net = Net(*ids, voters=voters)
    if cut_off:
        net.isolate(cut_off)
    net.pass_time(5000)
    leader = net.leader()
    for number in range(20):
        leader.propose(number, 1, 10, None, net.now)
    net.deliver_all()
    net.hosts[leader.me.id].take_snapshot()
    for number in range(3):
        leader.propose(number, 1, 10, None, net.now)
    net.deliver_all()
    return net


@pytest.mark.parametrize("late", [3, 4], ids=["voter", "observer"])
def test_q38_who_comes_late_gets_the_snapshot_in_chunks_and_goes_on(late: int) -> None:
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


def test_q38_the_log_of_the_one_that_took_it_starts_behind_it() -> None:
    net = with_snapshot(1, 2, 3, voters=(1, 2, 3))
    host = net.hosts[net.leader().me.id]
    assert host.core.log.start == host.batches[0].base_offset
    assert host.core.log.epochs.starts[0] == host.core.log.start


@pytest.mark.parametrize(
    ("offset", "last_epoch", "needs"),
    [(0, 0, True), (5, 1, True), (22, 0, True), (22, 1, False), (23, 1, False)],
)
def test_q38_who_needs_the_snapshot_is_told_its_id(
    offset: int, last_epoch: int, needs: bool
) -> None:
    net = with_snapshot(1, voters=(1,))
    leader = net.leader()
    assert leader.log.snapshot == OffsetAndEpoch(22, 1)
    fetch = Fetch("cluster", ReplicaKey(9), 1, offset, last_epoch, -1, 0, 1000)
    leader.handle(Asked("it", fetch), net.now)
    net.settle()
    (answer,) = [body for slot, body in net.replies if slot == "it"]
    assert isinstance(answer, FetchAnswer)
    assert answer.snapshot == (leader.log.snapshot if needs else None)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"id": OffsetAndEpoch(5, 1)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({}, ErrorCode.NONE),
    ],
)
def test_q38_a_chunk_is_refused_with_kafkas_codes(change: dict[str, object], error: int) -> None:
    net = with_snapshot(1, voters=(1,))
    good = SnapshotFetch("cluster", ReplicaKey(9), 1, OffsetAndEpoch(22, 1), 0, 100)
    net.leader().handle(Asked("it", good.replace(**change)), net.now)
    net.settle()
    (answer,) = [body for slot, body in net.replies if slot == "it"]
    assert isinstance(answer, SnapshotChunk)
    assert answer.error == error


def test_q38_another_leader_abandons_a_download() -> None:
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

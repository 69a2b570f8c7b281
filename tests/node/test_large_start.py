"""V5, Q38: a start that takes many turns, because the node has many partitions."""

from __future__ import annotations

from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.node.quorum.due_snapshots import STARTING_MS
from tests.node.frame_client import make_folders, make_host
from tests.virtual_host import SETTINGS, VirtualHost

PARTITIONS = 40
SESSION_MS = 9_000
#: Every change of the metadata makes a snapshot due.
SNAPSHOT_ALWAYS = SETTINGS + "metadata.log.max.record.bytes.between.snapshots=1\n"


def host_after_a_crash(settings: str = SETTINGS) -> VirtualHost:
    """A node restarted after a crash, before its first turn."""
    first = make_host(many=PARTITIONS)
    first.files.kill()
    return VirtualHost(first.files, settings, settled=False)


def turns_until_ready(host: VirtualHost, ms: int) -> int:
    """The number of turns until the node is ready, if each takes `ms` milliseconds."""
    for number in range(10 * PARTITIONS):
        if host.node.is_ready:
            return number
        host.pass_time(ms)
    raise AssertionError("the node never becomes ready")


def leader_epochs(host: VirtualHost) -> set[int]:
    return {partition.leader_epoch for partition in host.node.image.partitions.values()}


def test_v5_a_start_longer_than_a_session_does_not_fence_the_broker() -> None:
    """The broker's heartbeat waits until a decision about all its partitions is committed."""
    host = host_after_a_crash()
    host.node.sliced.limit(5)  # a turn of the loop decides on a few partitions only
    assert turns_until_ready(host, 1_000) * 1_000 > 2 * SESSION_MS
    host.settle()
    assert leader_epochs(host) == {2}, "epoch 0, then 1 without a leader, then 2"


def test_v5_a_clean_restart_of_the_only_broker_changes_no_partition() -> None:
    """Fencing and unfencing the broker would change each partition twice, which takes long."""
    first = make_host(many=PARTITIONS)
    make_folders(first)
    before, offset = dict(first.node.image.partitions), first.node.quorum.applied
    first.runner.close()
    host = VirtualHost(first.files, settled=False)
    turns_until_ready(host, 1)
    assert host.node.image.partitions == before
    assert host.node.quorum.applied - offset < PARTITIONS // 4
    partitions = host.node.replica_manager.partitions.values()
    assert [it.online for it in partitions] == [True] * PARTITIONS


def snapshot_count(host: VirtualHost) -> int:
    names = host.files.list(f"data/{METADATA_LOG[0]}-{METADATA_LOG[1]}")
    return len([name for name in names if name.endswith(".checkpoint")])


def test_q38_a_snapshot_waits_until_the_broker_is_unfenced() -> None:
    host = host_after_a_crash(SNAPSHOT_ALWAYS)
    host.node.sliced.limit(5)
    while not host.node.is_ready:
        assert snapshot_count(host) == 0
        host.pass_time(1)
    host.settle()
    host.pass_time(1)
    assert snapshot_count(host) > 0


def test_q38_a_snapshot_does_not_wait_for_a_broker_that_stays_fenced() -> None:
    host = host_after_a_crash(SNAPSHOT_ALWAYS)
    lifecycle = host.node.broker_lifecycle
    assert lifecycle is not None
    lifecycle._has_opened_logs = lambda: False
    host.settle()
    host.pass_time(STARTING_MS - 1)
    assert snapshot_count(host) == 0
    host.pass_time(1)
    assert (snapshot_count(host) > 0, host.node.is_ready) == (True, False)

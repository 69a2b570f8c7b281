"""V8, V18: a member of the ISR whose log directory cannot be written at present may lag briefly."""

from __future__ import annotations

from kraftlog.replication.in_sync_replicas import UNWRITABLE_LAG_MS
from kraftlog.wire.messages import metadata_records as records
from tests.replication.broker import MAX_LAG_MS, TOPIC_ID
from tests.replication.cluster import Cluster
from tests.replication.test_isr import (
    DIRECTORY,
    LONG_MS,
    OTHER_DIRECTORY,
    pass_checks,
    settled_cluster,
)


def commit_unwritable(cluster: Cluster, broker: int, *directories: bytes) -> None:
    record = records.BrokerRegistrationChangeRecord(
        broker_id=broker,
        broker_epoch=cluster[broker].epoch,
        unwritable_log_dirs=directories,
    )
    cluster.commit(record)


def cluster_with_directories() -> Cluster:
    cluster = settled_cluster()
    directories = (DIRECTORY, OTHER_DIRECTORY, DIRECTORY)
    cluster.commit(
        records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=directories)
    )
    return cluster


def test_v8_follower_that_cannot_write_leaves_soon_if_it_lags() -> None:
    """V8, V18: acks=all does not wait for replica.lag.time.max.ms, and nothing else wakes it."""
    cluster = cluster_with_directories()
    commit_unwritable(cluster, 2, OTHER_DIRECTORY)
    pass_checks(cluster, 2 * MAX_LAG_MS)
    assert cluster[1].proposed == [], "it has all records"
    cluster.isolate(2)
    cluster[1].produce("b")
    cluster.settle()
    cluster.advance(UNWRITABLE_LAG_MS - 1)
    assert cluster[1].proposed == []
    pass_checks(cluster, 2 * UNWRITABLE_LAG_MS)
    assert cluster[1].proposed == [(1, 3)]
    cluster.accept(1)
    assert cluster[1].high_watermark == 2, "it is no longer counted"
    cluster.heal()
    cluster[2].is_full = True
    pass_checks(cluster, 2 * MAX_LAG_MS)
    assert cluster[1].proposed == []
    cluster[2].is_full = False
    pass_checks(cluster, LONG_MS)
    assert cluster[1].proposed == [(1, 3, 2)]


def test_v8_lag_that_began_before_the_report_counts() -> None:
    cluster = cluster_with_directories()
    cluster.isolate(2)
    cluster[1].produce("b")
    cluster.settle()
    cluster.advance(UNWRITABLE_LAG_MS + 1)
    commit_unwritable(cluster, 2, OTHER_DIRECTORY)
    assert cluster[1].replica_manager.deadline() == cluster.now.monotonic_ms + UNWRITABLE_LAG_MS
    cluster.advance(UNWRITABLE_LAG_MS)
    assert cluster[1].proposed == [(1, 3)]


def test_v8_follower_that_can_write_may_lag_for_longer() -> None:
    """Another directory of its broker cannot be written."""
    cluster = cluster_with_directories()
    commit_unwritable(cluster, 2, DIRECTORY)
    cluster.isolate(2)
    cluster[1].produce("b")
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[1].proposed == []

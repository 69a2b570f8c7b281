"""KIP-392: consumers read from the nearest in-sync replica."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ConfigError, ErrorCode
from kraftlog.node.fetch.follower_news import NOTIFIED_WITHIN_MS
from kraftlog.replication.read_replica import selects_by_rack
from tests.replication.broker import MAX_WAIT_MS, PendingFetch
from tests.replication.cluster import Cluster
from tests.replication.memory_log import MemoryLog

RACKS = {1: "a", 2: "b", 3: "b"}
LAST_VERSION_WITHOUT_RACKS = 10
#: Longer than a test waits.
MANY_WAITS_MS = 100 * MAX_WAIT_MS
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


def three_replicas(text: str = "1:abc", racks: dict[int, str] | None = None) -> Cluster:
    """Three idle replicas in sync with the log `text`; broker 1 leads in epoch 1."""
    cluster = Cluster(dict.fromkeys((1, 2, 3), text), racks=RACKS if racks is None else racks)
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    return cluster


def data_of(pending: PendingFetch) -> Any:
    [data] = pending.response.responses[0].partitions
    return data


def outcome(pending: PendingFetch) -> tuple[int, str]:
    """The preferred read replica of a response, and the records in it."""
    data = data_of(pending)
    return data.preferred_read_replica, str(MemoryLog.of(data.records))


# The leader names the nearest replica ------------------------------------------------------------


def test_leader_names_a_follower_in_the_rack_of_the_consumer() -> None:
    """At once and without records; of two equal followers it names the higher id, as Kafka does."""
    cluster = three_replicas()
    assert outcome(cluster[1].fetch(0, rack="b", max_wait_ms=MAX_WAIT_MS)) == (3, "")


@pytest.mark.parametrize("rack", ["a", "c", ""])
def test_leader_serves_its_own_rack_and_racks_without_replicas(rack: str) -> None:
    assert outcome(three_replicas()[1].fetch(0, rack=rack)) == (-1, "1:abc")


def test_leader_in_the_same_rack_is_the_nearest() -> None:
    cluster = three_replicas(racks=dict.fromkeys((1, 2, 3), "b"))
    assert outcome(cluster[1].fetch(0, rack="b")) == (-1, "1:abc")


def test_without_racks_no_replica_is_preferred() -> None:
    cluster = three_replicas(racks={})
    assert outcome(cluster[1].fetch(0, rack="b")) == (-1, "1:abc")


def test_client_without_racks_reads_from_the_leader_only() -> None:
    cluster = three_replicas()
    assert outcome(cluster[1].fetch(0, version=LAST_VERSION_WITHOUT_RACKS)) == (-1, "1:abc")
    refused = cluster[2].fetch(0, version=LAST_VERSION_WITHOUT_RACKS)
    assert data_of(refused).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_outside_the_isr_is_not_named() -> None:
    cluster = three_replicas()
    cluster.set_isr((1, 2))
    assert outcome(cluster[1].fetch(0, rack="b"))[0] == 2


def test_fenced_follower_is_not_named() -> None:
    cluster = three_replicas()
    cluster.fence(3)
    assert outcome(cluster[1].fetch(0, rack="b"))[0] == 2


def test_follower_that_lacks_the_offset_is_not_named() -> None:
    """Both followers are in sync, but broker 3 has not fetched the last record."""
    cluster = three_replicas()
    cluster.isolate(3)
    cluster[1].produce("d")
    cluster.settle()
    assert outcome(cluster[1].fetch(4, rack="b"))[0] == 2


def test_follower_whose_log_starts_later_is_not_named() -> None:
    """Only the leader still has the records at this offset."""
    cluster = Cluster(dict.fromkeys((1, 2), "1:abc"), racks=RACKS, starts={2: 2})
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert outcome(cluster[1].fetch(0, rack="b")) == (-1, "1:abc")


def test_an_offset_out_of_range_is_an_error_and_names_no_replica() -> None:
    data = data_of(three_replicas()[1].fetch(9, rack="b"))
    assert (data.error_code, data.preferred_read_replica) == (OUT_OF_RANGE, -1)


# The follower serves consumers -------------------------------------------------------------------


def test_follower_serves_consumers_up_to_its_high_watermark() -> None:
    """Its last record is committed, but it does not know the new high watermark yet."""
    cluster = three_replicas(racks={})
    cluster[1].produce("d")
    cluster.settle()
    assert (cluster[2].partition.written_end, cluster[2].high_watermark) == (4, 3)
    assert cluster[2].consume(0) == (0, "1:abc", 3)
    assert cluster[2].consume(4) == (0, "", 3)
    assert cluster[2].consume(5)[0] == OUT_OF_RANGE


def test_v7_followers_soon_learn_the_high_watermark() -> None:
    """Otherwise their consumers would wait for up to replica.fetch.wait.max.ms."""
    cluster = three_replicas()
    cluster[1].produce("d")
    cluster.settle()
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2, 3)] == [4, 3, 3]
    cluster.pass_ms(NOTIFIED_WITHIN_MS)
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2, 3)] == [4, 4, 4]


def test_v7_records_bring_the_high_watermark_without_a_response_of_its_own() -> None:
    """Under load followers fetch no more often than without racks."""
    fetches = []
    for racks in (RACKS, {}):
        cluster = three_replicas(racks=racks)
        before = cluster.flight(2).request.session_epoch
        for record in "defg":
            cluster[1].produce(record)
            cluster.settle()
            cluster.pass_ms(NOTIFIED_WITHIN_MS - 1)
        fetches.append(cluster.flight(2).request.session_epoch - before)
        assert cluster[2].high_watermark == 6
    assert fetches == [4, 4]


def test_consumer_waits_at_the_follower_for_the_next_records() -> None:
    cluster = three_replicas()
    waiting = cluster[2].fetch(3, max_wait_ms=MAX_WAIT_MS)
    assert waiting.response is None
    cluster[1].produce("d")
    cluster.settle()
    cluster.pass_ms(NOTIFIED_WITHIN_MS)
    assert outcome(waiting) == (-1, "1:d")


def test_v6_epoch_of_the_consumer_is_checked_by_the_follower_too() -> None:
    """C156."""
    cluster = three_replicas()
    assert cluster[2].consume(0, leader_epoch=0)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster[2].consume(0, leader_epoch=2)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_v6_follower_that_truncates_serves_nothing() -> None:
    """Its records may diverge from the committed ones."""
    cluster = three_replicas()
    cluster[2].partition.begin_truncation()
    assert cluster[2].consume(0)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_new_leader_ends_the_wait_of_a_consumer() -> None:
    cluster = three_replicas()
    waiting = cluster[2].fetch(3, leader_epoch=1, max_wait_ms=MAX_WAIT_MS)
    cluster.elect(3, (1, 2, 3))
    assert data_of(waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("reader_at", [1, 2])
def test_v24_leader_in_a_new_epoch_ends_the_wait_of_a_consumer(reader_at: int) -> None:
    """V24: the error needs no new bytes, neither where the leader stays nor where it is new."""
    cluster = three_replicas()
    waiting = cluster[reader_at].fetch(3, leader_epoch=1, max_wait_ms=MAX_WAIT_MS)
    cluster.elect(reader_at, (1, 2, 3))
    assert data_of(waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_v24_follower_that_restarts_at_the_leaders_start_ends_the_wait() -> None:
    """The leader has deleted the records that a consumer waits for at the follower."""
    cluster = three_replicas()
    cluster.isolate(2)
    cluster.set_isr((1, 3))
    cluster[1].produce("def")
    cluster.settle()
    cluster[1].delete_records(6)
    cluster.settle()
    waiting = cluster[2].fetch(3, max_wait_ms=MANY_WAITS_MS)
    assert waiting.response is None
    cluster.heal()
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[2].log.start == 6
    assert data_of(waiting).error_code == OUT_OF_RANGE


def test_v24_truncation_below_the_position_of_a_consumer_ends_its_wait() -> None:
    """A leader that was elected uncleanly lacks the records before the position."""
    cluster = three_replicas()
    cluster.isolate(2)
    cluster.crash(1)
    cluster.crash(3, keeps=1)
    cluster.restart(3)
    cluster.elect(3, (3,))
    cluster.settle()
    waiting = cluster[2].fetch(3, max_wait_ms=MANY_WAITS_MS)
    assert waiting.response is None
    cluster.heal()
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[2].truncations == [1]
    assert data_of(waiting).error_code == OUT_OF_RANGE


def test_only_kafkas_two_replica_selectors_are_known() -> None:
    assert selects_by_rack("org.apache.kafka.common.replica.RackAwareReplicaSelector")
    assert not selects_by_rack("org.apache.kafka.common.replica.LeaderSelector")
    assert not selects_by_rack(None)
    with pytest.raises(ConfigError):
        selects_by_rack("com.example.Selector")

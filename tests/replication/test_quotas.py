"""V10: replication throttles, which hold back only replicas outside the ISR."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import BROKER
from kraftlog.replication.quotas import MAX_THROTTLE_MS, NO_LIMIT, ByteRate, throttled_partitions
from kraftlog.wire.messages import metadata_records as records
from tests.replication.broker import MAX_LAG_MS, MAX_WAIT_MS, TOPIC_RESOURCE
from tests.replication.cluster import Cluster
from tests.replication.memory_log import make_batch

BATCH_BYTES = len(make_batch("a"))
WINDOW_MS, WINDOWS = 1000, 11
#: Bytes per second: each batch takes ten seconds.
SLOW_RATE = BATCH_BYTES // 10


def config_record(resource_type: int, name: str, key: str, value: object) -> records.ConfigRecord:
    return records.ConfigRecord(
        resource_type=resource_type, resource_name=name, name=key, value=str(value)
    )


def throttle(cluster: Cluster, side: str, broker: int, rate: int, replicas: str = "*") -> None:
    cluster.commit(
        config_record(BROKER, str(broker), f"{side}.replication.throttled.rate", rate),
        config_record(TOPIC_RESOURCE, "t", f"{side}.replication.throttled.replicas", replicas),
    )


def cluster_with_lag(isr: tuple[int, ...] = (1,)) -> Cluster:
    """Broker 2 has nothing of the leader's log, and fetches a batch at a time."""
    return Cluster({1: "1:abcdef", 2: ""}, isr=isr, partition_max_bytes=BATCH_BYTES)


def pass_seconds(cluster: Cluster, seconds: int) -> None:
    for _ in range(seconds * 2):
        cluster.pass_ms(MAX_WAIT_MS)


# The rate ----------------------------------------------------------------------------------------


def test_rate_within_the_limit_needs_no_wait() -> None:
    rate = ByteRate(WINDOWS, WINDOW_MS)
    rate.record(100, 5)
    assert rate.wait_ms(100, 5) == 0


def test_excess_is_waited_for_until_the_mean_is_within_the_limit() -> None:
    rate = ByteRate(WINDOWS, WINDOW_MS)
    rate.record(150, 0)
    assert rate.wait_ms(100, 0) == MAX_THROTTLE_MS
    assert rate.wait_ms(100, 1400) == 100
    assert rate.wait_ms(100, 1500) == 0


def test_bytes_of_expired_windows_do_not_count() -> None:
    rate = ByteRate(WINDOWS, WINDOW_MS)
    rate.record(1 << 40, 0)
    assert rate.wait_ms(1, WINDOWS * WINDOW_MS - 1) > 0
    assert rate.wait_ms(1, WINDOWS * WINDOW_MS) == 0


def test_a_limit_of_zero_holds_back_until_the_windows_expire() -> None:
    rate = ByteRate(WINDOWS, WINDOW_MS)
    rate.record(1, 0)
    assert rate.wait_ms(0, 0) == MAX_THROTTLE_MS
    assert rate.wait_ms(0, WINDOWS * WINDOW_MS) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("*", None), ("", frozenset()), ("0:1,0:2,3:1,4:2", frozenset({0, 3}))],
)
def test_replicas_are_listed_by_partition_and_broker(
    text: str, expected: frozenset[int] | None
) -> None:
    assert throttled_partitions(text.split(","), 1) == expected


# The leader --------------------------------------------------------------------------------------


def test_v10_leader_holds_back_a_replica_that_is_not_in_sync() -> None:
    """The first response is not throttled: no bytes are counted before it."""
    cluster = cluster_with_lag()
    throttle(cluster, "leader", 1, SLOW_RATE)
    pass_seconds(cluster, 8)
    assert cluster.logs() == ["1:abcdef", "1:a"]
    pass_seconds(cluster, 8)
    assert cluster.logs() == ["1:abcdef", "1:ab"]


def test_v10_leader_never_holds_back_the_isr() -> None:
    cluster = cluster_with_lag(isr=(1, 2))
    throttle(cluster, "leader", 1, SLOW_RATE)
    cluster.settle()
    assert cluster.logs() == ["1:abcdef", "1:abcdef"]


@pytest.mark.parametrize("replicas", ["0:2", "1:1", "1:1,0:2"])
def test_v10_replicas_that_are_not_listed_are_not_held_back(replicas: str) -> None:
    """leader.replication.throttled.replicas lists partitions with the broker that leads them."""
    cluster = cluster_with_lag()
    throttle(cluster, "leader", 1, SLOW_RATE, replicas)
    cluster.settle()
    assert cluster.logs() == ["1:abcdef", "1:abcdef"]


def test_v10_a_removed_throttle_ends_at_once() -> None:
    cluster = cluster_with_lag()
    throttle(cluster, "leader", 1, SLOW_RATE)
    pass_seconds(cluster, 2)
    throttle(cluster, "leader", 1, NO_LIMIT)
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster.logs() == ["1:abcdef", "1:abcdef"]


# The follower ------------------------------------------------------------------------------------


def test_v10_follower_fetches_no_faster_than_its_throttle() -> None:
    cluster = cluster_with_lag()
    throttle(cluster, "follower", 2, SLOW_RATE, "0:2")
    pass_seconds(cluster, 8)
    assert cluster.logs() == ["1:abcdef", "1:a"]
    pass_seconds(cluster, 8)
    assert cluster.logs() == ["1:abcdef", "1:ab"]
    throttle(cluster, "follower", 2, NO_LIMIT, "")
    cluster.pass_ms(MAX_THROTTLE_MS)
    assert cluster.logs() == ["1:abcdef", "1:abcdef"]


def test_v10_follower_without_a_lag_is_not_held_back() -> None:
    """New records are fetched at once, and it stays in the ISR."""
    cluster = Cluster({1: "1:a", 2: "1:a"})
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    throttle(cluster, "follower", 2, SLOW_RATE)
    for letter in "bcd":
        produced = cluster[1].produce(letter)
        cluster.pass_ms(MAX_WAIT_MS)
        assert produced.outcome == 0
    pass_seconds(cluster, MAX_LAG_MS // 1000)
    assert cluster[1].partition.isr == (1, 2)

"""V8, V13: thousands of partitions at once do not block the node's loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kraftlog.config.broker import BrokerConfig
from kraftlog.replication.fetcher import FetchConfig, Fetcher, fetch_config_of
from kraftlog.replication.in_sync_replicas import MAX_CHECKED
from kraftlog.replication.partition import Partition
from kraftlog.types import Now
from kraftlog.wire.messages.fetch import FetchResponse
from tests.node.turn_cost import count_calls
from tests.replication.broker import MAX_LAG_MS, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster, topic_records

if TYPE_CHECKING:
    from kraftlog.replication.fetcher import FollowedPartition

#: More partitions than a fetch reads at once.
MANY = 150
#: Longer than any backoff of a fetcher.
LONG_MS = 2_000
CONFIG = FetchConfig(broker_id=2)
RACKS = {1: "a", 2: "b", 3: "c"}


def add_partitions(cluster: Cluster, count: int) -> Cluster:
    """Add partitions with the same replicas, and wait until the cluster is idle."""
    replicas = tuple(cluster.disks)
    for index in range(1, count):
        *_, record = topic_records(TOPIC_ID, replicas, replicas, 1, 1)
        record.partition_id = index
        cluster.commit(record)
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    return cluster


def produce_to_all(cluster: Cluster) -> None:
    leader = cluster[1]
    for partition in leader.replica_manager.partitions.values():
        leader.produce("b", partition=partition)


def count_proposals(cluster: Cluster) -> int:
    """How many partitions of broker 1 have a proposed ISR."""
    partitions = cluster[1].replica_manager.partitions.values()
    return sum([partition.proposed is not None for partition in partitions])


def poll_all(cluster: Cluster) -> list[int]:
    """Poll the leader until nothing is due; the number of proposals after each poll."""
    replicas, proposals = cluster[1].replica_manager.in_sync_replicas, []
    while (due_ms := replicas.deadline()) is not None and due_ms <= cluster.now.monotonic_ms:
        replicas.poll(cluster.now)
        proposals.append(count_proposals(cluster))
    return proposals


# The leader --------------------------------------------------------------------------------------


def test_v8_partitions_of_a_dead_follower_are_checked_some_at_a_time() -> None:
    """V8: each poll checks at most MAX_CHECKED, and the next poll is due at once."""
    count = 2 * MAX_CHECKED + 50
    cluster = add_partitions(Cluster({1: "1:a", 2: "1:a"}), count)
    cluster.isolate(2)
    produce_to_all(cluster)
    cluster.run_turns()
    assert set(poll_all(cluster)) <= {0}
    cluster.advance(MAX_LAG_MS + 1)
    assert poll_all(cluster)[:2] == [2 * MAX_CHECKED, count]


def test_v8_partition_that_caught_up_during_a_check_is_left_alone() -> None:
    """V8: a later part of the check sees the partitions as they are by then."""
    cluster = add_partitions(Cluster({1: "1:a", 2: "1:a"}), MAX_CHECKED + 1)
    cluster[2].holds_writes = True
    produce_to_all(cluster)
    cluster.settle()
    cluster.advance(MAX_LAG_MS + 1)
    assert count_proposals(cluster) == MAX_CHECKED
    cluster[2].write()
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert count_proposals(cluster) == MAX_CHECKED
    assert cluster[1].high_watermark == 2


def test_v13_large_waiting_fetch_completes_for_a_high_watermark_alone() -> None:
    """V13 (KIP-392): consumers read from a follower up to the high watermark that it knows."""
    cluster = add_partitions(Cluster(dict.fromkeys((1, 2, 3), "1:a"), racks=RACKS), MANY)
    cluster[3].holds_writes = True
    produce_to_all(cluster)
    cluster.settle()
    waiting = cluster.flight(2)
    assert (waiting.response, cluster[2].high_watermark) == (None, 1)
    assert sum([len(topic.partitions) for topic in waiting.request.topics]) == MANY
    cluster.fence(3)
    cluster.set_isr((1, 2))  # of one partition, whose high watermark moves
    cluster.settle()
    assert cluster[2].high_watermark == 2


def test_v13_large_waiting_fetch_ignores_a_high_watermark_without_racks() -> None:
    """V13: the high watermark comes with the next records, or after the longest wait."""
    cluster = add_partitions(Cluster(dict.fromkeys((1, 2, 3), "1:a")), MANY)
    cluster[3].holds_writes = True
    produce_to_all(cluster)
    cluster.settle()
    cluster.fence(3)
    cluster.set_isr((1, 2))
    cluster.settle()
    assert cluster[2].high_watermark == 1
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[2].high_watermark == 2


# The follower ------------------------------------------------------------------------------------


def fetcher_of(count: int, config: FetchConfig = CONFIG) -> tuple[Fetcher, list[FollowedPartition]]:
    logs = SimpleNamespace(latest_epoch=lambda _: -1)
    node = SimpleNamespace(broker_epoch=lambda: 5, logs=logs)
    fetcher = Fetcher(1, config, cast("Any", node))
    for index in range(count):
        fetcher.add(Partition("t", TOPIC_ID, index, ("t", index)))
    return fetcher, list(fetcher.followed.values())


def delay(fetcher: Fetcher, followed: FollowedPartition, now_ms: int, times: int = 1) -> None:
    for _ in range(times):
        fetcher.delay(followed, Now(now_ms, now_ms))


def partitions_in_next_request(fetcher: Fetcher) -> set[int]:
    """Make the next request, with a response without records; return its partitions."""
    request = fetcher.request()
    response = FetchResponse(error_code=0, session_id=7, responses=())
    assert list(fetcher.take_response(response, Now(0, 0))) == []
    return {part.partition for topic in request.topics for part in topic.partitions}


@pytest.mark.parametrize(
    ("count", "expected_max_bytes"), [(1, 4 << 20), (5, 2 << 20), (10, 1 << 20), (1000, 1 << 20)]
)
def test_v13_partitions_share_the_response(count: int, expected_max_bytes: int) -> None:
    """A request that names few partitions asks for more of each, up to 4 MiB."""
    config = CONFIG.replace(max_bytes=10 << 20, fills_responses=True)
    request = fetcher_of(count, config)[0].request()
    max_bytes = [part.partition_max_bytes for topic in request.topics for part in topic.partitions]
    assert max_bytes == [expected_max_bytes] * count


@pytest.mark.parametrize(
    ("configured", "expected_max_bytes"),
    [("", 4 << 20), ("1048576", 1 << 20), ("5000", 5000), ("9000000", 9_000_000)],
)
def test_v13_a_configured_maximum_of_a_partition_is_kept(
    configured: str, expected_max_bytes: int
) -> None:
    settings = {"process.roles": "broker", "node.id": "2"}
    if configured:
        settings["replica.fetch.max.bytes"] = configured
    request = fetcher_of(1, fetch_config_of(BrokerConfig(settings)))[0].request()
    assert request.topics[0].partitions[0].partition_max_bytes == expected_max_bytes


def test_v13_delayed_partitions_cost_nothing_until_one_is_due() -> None:
    """V13: the next one is found by its deadline."""
    fetcher, all_followed = fetcher_of(1_000)
    for followed in all_followed:
        delay(fetcher, followed, 100)
    assert fetcher.deadline() == 110
    assert count_calls(fetcher.deadline) + count_calls(lambda: fetcher.poll(Now(109, 109))) < 20
    assert fetcher.deadline() == 110


def test_v13_delayed_partition_is_fetched_again_at_its_own_deadline() -> None:
    fetcher, (first, second, third) = fetcher_of(3)
    delay(fetcher, first, 100, times=3)  # 40 ms
    delay(fetcher, second, 100)
    delay(fetcher, third, 100)
    fetcher.remove(third.key)
    assert fetcher.deadline() == 110
    fetcher.poll(Now(110, 110))
    assert (partitions_in_next_request(fetcher), fetcher.deadline()) == ({1}, 140)
    delay(fetcher, first, 120)  # 80 ms, from then on
    fetcher.poll(Now(140, 140))
    assert (partitions_in_next_request(fetcher), fetcher.deadline()) == (set(), 200)
    fetcher.poll(Now(200, 200))
    assert (partitions_in_next_request(fetcher), fetcher.deadline()) == ({0}, None)


def test_v13_partition_that_is_added_again_keeps_no_delay() -> None:
    fetcher, (first,) = fetcher_of(1)
    delay(fetcher, first, 100)
    fetcher.add(first.partition)
    assert fetcher.deadline() is None
    assert partitions_in_next_request(fetcher) == {0}


def test_v13_backoff_ends_with_a_success_without_records() -> None:
    """V13: an idle partition that the leader serves again does not keep its backoff."""
    cluster = Cluster({1: "1:a", 2: "1:a"})
    cluster.settle()
    cluster.elect(1, (1, 2), unseen_by=(1,))  # broker 1 does not know of epoch 2
    cluster.pass_ms(MAX_WAIT_MS)
    [fetcher] = cluster[2].replica_manager.fetchers._fetchers.values()
    [followed] = fetcher.followed.values()
    assert followed.backoff_ms > 0
    cluster[1].replay()
    cluster.pass_ms(LONG_MS)
    cluster.pass_ms(MAX_WAIT_MS)
    assert followed.backoff_ms == 0

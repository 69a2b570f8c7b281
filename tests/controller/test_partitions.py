"""V4, V11: topics have names and ids; partitions are added and removed only at the end."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord, RemoveTopicRecord
from kraftlog.wire.messages.remove_partitions import RemovePartitionsRequest, RemovePartitionsTopic
from tests.controller.cluster import Cluster, numbered_id


def delete(cluster: Cluster, *topics: tuple[str | None, bytes]) -> tuple[list[int], list[object]]:
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    request = DeleteTopicsRequest(topics=states, timeout_ms=0)
    decision = cluster.ask(ApiKey.DELETE_TOPICS, request)
    return [result.error_code for result in decision.response.responses], list(decision.records)


def grow(
    cluster: Cluster, count: int, *assigned: tuple[int, ...], name: str = "t", times: int = 1
) -> tuple[int, str | None]:
    assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned] or None
    topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = CreatePartitionsRequest(topics=[topic] * times, timeout_ms=0, validate_only=False)
    decision = cluster.ask(ApiKey.CREATE_PARTITIONS, request)
    (result,) = decision.response.results
    assert bool(decision.records) == (result.error_code == 0)
    return result.error_code, result.error_message


def shrink(cluster: Cluster, *partitions: int, name: str = "t", times: int = 1) -> int:
    topic = RemovePartitionsTopic(name=name, partitions=partitions)
    request = RemovePartitionsRequest(topics=[topic] * times, timeout_ms=0)
    decision = cluster.ask(ApiKey.REMOVE_PARTITIONS, request)
    (result,) = decision.response.results
    assert bool(decision.records) == (result.error_code == 0)
    code: int = result.error_code
    return code


# DeleteTopics ------------------------------------------------------------------------------------


def test_v4_a_topic_is_deleted_by_name_or_id_with_its_configs() -> None:
    """C224."""
    cluster = Cluster(brokers=1)
    first = cluster.create("a", (1,), configs={"retention.ms": "1"})
    second = cluster.create("b", (1,))
    codes, records = delete(cluster, ("a", NULL_UUID), (None, second))
    assert codes == [0, 0]
    assert records == [RemoveTopicRecord(topic_id=first), RemoveTopicRecord(topic_id=second)]
    image = cluster.committed
    assert (image.topics, image.partitions, image.topic_ids) == ({}, {}, {})
    assert image.config(TOPIC, "a") == {}


def test_v4_a_recreated_topic_has_another_id() -> None:
    cluster = Cluster(brokers=1)
    first = cluster.create("t", (1,))
    delete(cluster, ("t", NULL_UUID))
    assert cluster.create("t", (1,)) != first


def test_v4_an_invalid_deletion_is_refused() -> None:
    """C224."""
    cluster = Cluster(brokers=1)
    topic = cluster.create("t", (1,))
    assert delete(
        cluster,
        ("x", NULL_UUID),
        (None, numbered_id(99)),
        (None, NULL_UUID),
        ("t", topic),
        ("t", NULL_UUID),
        (None, topic),
    ) == (
        [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ],
        [],
    )


def test_deletion_can_be_disabled() -> None:
    cluster = Cluster(brokers=1, delete_topics=False)
    cluster.create("t", (1,))
    assert delete(cluster, ("t", NULL_UUID))[0] == [ErrorCode.TOPIC_DELETION_DISABLED]


# CreatePartitions --------------------------------------------------------------------------------


def test_v11_added_partitions_have_the_topics_replication_factor() -> None:
    """C223."""
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", (1, 2))
    assert grow(cluster, 3) == (0, None)
    assert cluster.committed.topics[topic].partition_count == 3
    assert [len(p.replicas) for p in cluster.committed.partitions.values()] == [2] * 3
    assert grow(cluster, 4, (3, 1)) == (0, None)
    assert cluster.committed.partitions[topic, 3].replicas == (3, 1)


@pytest.mark.parametrize(
    ("count", "assigned", "code"),
    [
        (1, [], ErrorCode.INVALID_PARTITIONS),
        (0, [], ErrorCode.INVALID_PARTITIONS),
        (3, [(1, 2)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [(1,)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [(1, 9)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (10_002, [], ErrorCode.POLICY_VIOLATION),
    ],
)
def test_v11_an_invalid_partition_count_is_refused(
    count: int, assigned: list[tuple[int, ...]], code: int
) -> None:
    """C223."""
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    assert grow(cluster, count, *assigned)[0] == code


def test_v11_adding_partitions_needs_a_unique_topic_and_live_brokers() -> None:
    """C223."""
    cluster = Cluster(brokers=1)
    cluster.create("t", (1,))
    assert grow(cluster, 2, name="x")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(cluster, 2, times=2)[0] == ErrorCode.INVALID_REQUEST
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.state.brokers[1].in_controlled_shutdown
    assert grow(cluster, 2)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert grow(cluster, 2, (1,))[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# RemovePartitions --------------------------------------------------------------------------------


def test_v11_the_last_partitions_are_removed() -> None:
    cluster = Cluster(brokers=1)
    topic = cluster.create("t", (1,), (1,), (1,))
    decided = len(cluster.log)
    assert shrink(cluster, 1, 2) == 0
    assert cluster.log[decided:] == [
        PartitionChangeRecord(partition_id=index, topic_id=topic, removed=True) for index in (1, 2)
    ]
    assert cluster.committed.topics[topic].partition_count == 1
    assert list(cluster.committed.partitions) == [(topic, 0)]


@pytest.mark.parametrize("partitions", [(0,), (1,), (0, 1, 2), (2, 2), (3,), ()])
def test_v11_only_the_last_partitions_are_removed(partitions: tuple[int, ...]) -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", (1,), (1,), (1,))
    assert shrink(cluster, *partitions) == ErrorCode.INVALID_PARTITIONS


def test_v11_removal_needs_a_topic_named_once() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", (1,), (1,))
    assert shrink(cluster, 1, name="x") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert shrink(cluster, 1, times=2) == ErrorCode.INVALID_REQUEST


def test_v11_a_partition_added_again_has_higher_epochs() -> None:
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2), (1, 2))
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    assert cluster.committed.partitions[topic, 1].leader_epoch == 1
    shrink(cluster, 1)
    grow(cluster, 2)
    added_again = cluster.committed.partitions[topic, 1]
    assert (added_again.leader_epoch, added_again.first_leader_epoch) == (2, 2)
    assert cluster.committed.removed == {}
    cluster.controller.note_broker_down(2)
    cluster.pass_time(0)
    later = cluster.committed.partitions[topic, 1]
    assert (later.leader_epoch, later.first_leader_epoch) == (3, 2)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_v11_partitions_of_internal_topics_are_not_removed(topic: str) -> None:
    """A group or a transaction finds its partition by its hash modulo the number of partitions."""
    cluster = Cluster(brokers=1)
    cluster.create(topic, (1,), (1,))
    assert shrink(cluster, 1, name=topic) == ErrorCode.INVALID_TOPIC_EXCEPTION

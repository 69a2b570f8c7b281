"""V4: topics are created with Kafka's checks and records."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
)
from kraftlog.wire.messages.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from tests.controller.cluster import Cluster, creation, directory, new_topic, numbered_id


def topic_with_indexes(*assigned: tuple[int, tuple[int, ...]]) -> CreatableTopic:
    """A topic with these partition indexes, whether valid or not."""
    return new_topic("t").replace(
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assigned
        ]
    )


def refusal_of(cluster: Cluster, topic: CreatableTopic) -> tuple[int, str | None]:
    decision = cluster.ask(ApiKey.CREATE_TOPICS, creation(topic))
    (result,) = decision.response.topics
    assert decision.records == []
    return result.error_code, result.error_message


def test_v4_a_manual_assignment_is_recorded_as_requested() -> None:
    """C218."""
    cluster = Cluster(brokers=3)
    topic = new_topic("t", (2, 1), (3, 2), configs={"retention.ms": "1000"})
    decision = cluster.ask(ApiKey.CREATE_TOPICS, creation(topic))
    topic_id = numbered_id(1)
    assert decision.records == [
        TopicRecord(name="t", topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000"),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                removing_replicas=(),
                adding_replicas=(),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(directory(broker) for broker in replicas),
            )
            for index, replicas in enumerate([(2, 1), (3, 2)])
        ),
    ]
    (result,) = decision.response.topics
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, 0)
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert (
        CreatableTopicConfigs(name="retention.ms", value="1000", config_source=1) in result.configs
    )
    assert CreatableTopicConfigs(name="cleanup.policy", value="delete", config_source=5) in (
        result.configs
    )


def test_v4_replicas_are_spread_without_manual_assignment() -> None:
    cluster = Cluster(brokers=3)
    cluster.ask(ApiKey.CREATE_TOPICS, creation(new_topic("t", partitions=6, factor=2)))
    leaders = [p.leader for p in cluster.committed.partitions.values()]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(p.replicas)) == 2 for p in cluster.committed.partitions.values())


def test_v4_minus_one_means_the_default() -> None:
    cluster = Cluster(brokers=3, default_partitions=4, default_replication_factor=3)
    cluster.ask(ApiKey.CREATE_TOPICS, creation(new_topic("t")))
    assert [len(p.replicas) for p in cluster.committed.partitions.values()] == [3] * 4


@pytest.mark.parametrize(
    ("topic", "code", "error_text"),
    [
        (new_topic("", partitions=1), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
        (new_topic("..", partitions=1), ErrorCode.INVALID_TOPIC_EXCEPTION, "not allowed"),
        (new_topic("a" * 250, partitions=1), ErrorCode.INVALID_TOPIC_EXCEPTION, "longer"),
        (new_topic("ä", partitions=1), ErrorCode.INVALID_TOPIC_EXCEPTION, "alphanumerics"),
        (new_topic("is_there", partitions=1), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (new_topic("is.there", partitions=1), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides"),
        (new_topic("t", partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (new_topic("t", factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (new_topic("t", factor=4), ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker(s)"),
        (new_topic("t", (1,), factor=1), ErrorCode.INVALID_REQUEST, "replication factor"),
        (new_topic("t", (1,), partitions=1), ErrorCode.INVALID_REQUEST, "numPartitions"),
        (new_topic("t", ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (new_topic("t", (9,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        (new_topic("t", (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (new_topic("t", (1, 2), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consistent"),
        (
            topic_with_indexes((1, (1,)), (1, (1,))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual",
        ),
        (
            topic_with_indexes((0, (1,)), (2, (1,))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive",
        ),
        (
            new_topic("t", partitions=1).replace(
                configs=[CreatableTopicConfig(name="x", value=None)]
            ),
            ErrorCode.INVALID_CONFIG,
            "Null value",
        ),
        (new_topic("t", configs={"x": "1"}), ErrorCode.INVALID_CONFIG, "unknown key"),
        (new_topic("t", partitions=10_001), ErrorCode.POLICY_VIOLATION, "Excessively large"),
    ],
)
def test_v4_an_invalid_topic_is_refused(topic: CreatableTopic, code: int, error_text: str) -> None:
    """C217, C218, C220."""
    cluster = Cluster(brokers=3)
    cluster.create("is_there", (1,))
    error_code, message = refusal_of(cluster, topic)
    assert error_code == code
    assert message is not None
    assert error_text in message


def test_v4_an_invalid_topic_does_not_affect_others() -> None:
    """C220, C221."""
    cluster = Cluster(brokers=1)
    twice = new_topic("twice", (1,))
    decision = cluster.ask(
        ApiKey.CREATE_TOPICS,
        creation(twice, new_topic("a.b", (1,)), twice, new_topic("a_b", (1,)), new_topic("", (1,))),
    )
    codes = {result.name: result.error_code for result in decision.response.topics}
    assert codes == {
        "twice": ErrorCode.INVALID_REQUEST,
        "a.b": 0,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert list(cluster.committed.topic_ids) == ["a.b"]


def test_v4_validate_only_writes_nothing() -> None:
    """C222."""
    cluster = Cluster(brokers=1)
    decision = cluster.ask(ApiKey.CREATE_TOPICS, creation(new_topic("t", (1,)), validate_only=True))
    assert decision.records == []
    assert decision.response.topics[0].num_partitions == 1
    assert cluster.state.topics == {}


def test_v4_fenced_brokers_neither_lead_nor_are_in_sync() -> None:
    """C219."""
    cluster = Cluster(brokers=3)
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    topic = cluster.create("t", (1, 2))
    partition = cluster.committed.partitions[topic, 0]
    assert (partition.leader, partition.isr, partition.replicas) == (2, (2,), (1, 2))
    assert refusal_of(cluster, new_topic("u", (1,)))[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_more_records_than_a_batch_holds_are_refused() -> None:
    cluster = Cluster(brokers=1)
    topics = [new_topic(f"t{number}", (1,)) for number in range(5001)]
    decision = cluster.ask(ApiKey.CREATE_TOPICS, creation(*topics))
    assert decision.records == []
    assert {result.error_code for result in decision.response.topics} == {
        ErrorCode.POLICY_VIOLATION
    }

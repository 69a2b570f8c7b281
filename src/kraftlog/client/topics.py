"""Describes, creates and deletes topics, adds and removes partitions, deletes records."""

from __future__ import annotations

from kraftlog.client.cluster import ANY, CONTROLLER, TOPIC_WAIT_S
from kraftlog.client.configs import text_of
from kraftlog.client.model import Topic, partition_from_response
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_topic_partitions,
    remove_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.configs import ConfigValue
    from kraftlog.client.model import PartitionName


#: How often to check whether the broker has applied a change.
_METADATA_POLL_S = 0.02


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def describe(
    cluster: Cluster, names: Sequence[str], page_size: int = 2000, *, linearizable: bool = False
) -> list[Topic]:
    """Describe topics, which must exist; old brokers do not report ELRs."""
    deadline = cluster.deadline()
    if not names:
        return []
    served = cluster.retry(lambda: cluster.connection(ANY, deadline), deadline).served
    if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in served and not linearizable:
        return [cluster.topic(name, deadline) for name in names]
    requested = [describe_topic_partitions.TopicRequest(name=name) for name in sorted(names)]
    topics: dict[str, Topic] = {}
    cursor = None
    while True:
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=requested,
            response_partition_limit=page_size,
            cursor=cursor,
            linearizable=linearizable,
        )
        page = cluster.call(
            request,
            describe_topic_partitions.DescribeTopicPartitionsResponse,
            deadline=deadline,
            check=_check_description,
        )
        for result in page.topics:
            _add_page(topics, result)
        cursor = page.next_cursor
        if cursor is None:
            return [topics[name] for name in names]


def _check_description(
    response: describe_topic_partitions.DescribeTopicPartitionsResponse, context: ErrorContext
) -> None:
    for topic in response.topics:
        context.check(topic.error_code, f"topic {topic.name}")


def _add_page(
    topics: dict[str, Topic], result: describe_topic_partitions.DescribeTopicPartitionsResponseTopic
) -> None:
    name = result.name or ""
    partitions = tuple(
        partition_from_response(name, each).replace(
            elr=tuple(each.eligible_leader_replicas or ()),
            last_known_elr=tuple(each.last_known_elr or ()),
        )
        for each in result.partitions
    )
    earlier = topics[name].partitions if name in topics else ()
    topics[name] = Topic(name, result.is_internal, earlier + partitions, result.topic_id)


def create(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, ConfigValue] | None = None,
    assignment: Mapping[int, Sequence[int]] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic; -1 means the cluster's default."""
    assignments = [
        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
        for index, brokers in (assignment or {}).items()
    ]
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replication_factor,
        assignments=assignments,
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=text_of(value))
            for key, value in (configs or {}).items()
        ],
    )

    def check(response: create_topics.CreateTopicsResponse, context: ErrorContext) -> None:
        for result in response.topics:
            context.check(result.error_code, f"topic {name}", result.error_message)

    request = create_topics.CreateTopicsRequest(
        topics=[topic], timeout_ms=_ms(cluster.timeout_s), validate_only=validate_only
    )
    cluster.call(request, create_topics.CreateTopicsResponse, broker=CONTROLLER, check=check)
    if not validate_only:
        _wait_for(cluster, name, lambda count: count > 0)


def delete(cluster: Cluster, name: str) -> None:
    def check(response: delete_topics.DeleteTopicsResponse, context: ErrorContext) -> None:
        for result in response.responses:
            context.check(result.error_code, f"topic {name}", result.error_message)

    request = delete_topics.DeleteTopicsRequest(
        topic_names=[name], timeout_ms=_ms(cluster.timeout_s)
    )
    cluster.call(request, delete_topics.DeleteTopicsResponse, broker=CONTROLLER, check=check)
    _wait_for(cluster, name, lambda count: count == 0)


def add_partitions(
    cluster: Cluster, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
) -> None:
    """Increase a topic to `count` partitions; `assignment` has the brokers of the new ones."""
    assignments = None
    if assignment is not None:
        assignments = [
            create_partitions.CreatePartitionsAssignment(broker_ids=tuple(brokers))
            for brokers in assignment
        ]
    topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=assignments)

    def check(response: create_partitions.CreatePartitionsResponse, context: ErrorContext) -> None:
        for result in response.results:
            context.check(result.error_code, f"topic {name}", result.error_message)

    request = create_partitions.CreatePartitionsRequest(
        topics=[topic], timeout_ms=_ms(cluster.timeout_s), validate_only=False
    )
    cluster.call(
        request, create_partitions.CreatePartitionsResponse, broker=CONTROLLER, check=check
    )
    _wait_for(cluster, name, lambda current: current >= count)


def remove_last_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Remove the last partitions of a topic with their records, so that `count` are left."""
    cluster.drop_cache()
    current = len(cluster.topic(name).partitions)
    topic = remove_partitions.RemovePartitionsTopic(name=name, partitions=range(count, current))

    def check(response: remove_partitions.RemovePartitionsResponse, context: ErrorContext) -> None:
        for result in response.results:
            context.check(result.error_code, f"topic {name}", result.error_message)

    request = remove_partitions.RemovePartitionsRequest(
        topics=[topic], timeout_ms=_ms(cluster.timeout_s)
    )
    cluster.call(
        request, remove_partitions.RemovePartitionsResponse, broker=CONTROLLER, check=check
    )
    _wait_for(cluster, name, lambda remaining: remaining <= count)


def _wait_for(cluster: Cluster, name: str, is_reached: Callable[[int], bool]) -> None:
    """Wait until `is_reached` accepts the topic's partition count, but at most `TOPIC_WAIT_S`."""
    cluster.drop_cache()
    if cluster.is_controllers:
        return
    limit = cluster.deadline(min(TOPIC_WAIT_S, cluster.timeout_s))
    while not limit.is_over:
        topics = cluster.retry(lambda: cluster.refresh([name], limit), limit)
        if is_reached(sum(len(each.partitions) for each in topics if not each.error_code)):
            return
        limit.pause(_METADATA_POLL_S)


def delete_records_before(
    cluster: Cluster, offsets: Mapping[PartitionName, int]
) -> dict[PartitionName, int]:
    """Delete records before these offsets (-1: all); return the new log start offsets."""
    deadline = cluster.deadline()
    log_starts: dict[PartitionName, int] = {}

    def call_leader(broker: int, names: Sequence[PartitionName]) -> None:
        topics: dict[str, list[delete_records.DeleteRecordsPartition]] = {}
        for topic, index in names:
            partition = delete_records.DeleteRecordsPartition(
                partition_index=index, offset=offsets[topic, index]
            )
            topics.setdefault(topic, []).append(partition)
        request = delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(name=topic, partitions=parts)
                for topic, parts in topics.items()
            ],
            timeout_ms=_ms(deadline.left_s()),
        )
        response = cluster.connection(broker, deadline).call(request, deadline)
        assert isinstance(response, delete_records.DeleteRecordsResponse)
        for topic_response in response.topics:
            for result in topic_response.partitions:
                name = (topic_response.name, result.partition_index)
                cluster.error_context("DeleteRecords", broker).check(
                    result.error_code, f"{name[0]}-{name[1]}"
                )
                log_starts[name] = result.low_watermark

    cluster.per_leader(offsets, call_leader, deadline)
    return {name: log_starts[name] for name in offsets}

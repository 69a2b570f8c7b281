"""DescribeTopicPartitions 0: topics and their partitions, in pages.

The metadata topic is described if it is named, as in Metadata (Q27).
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import NO_LEADER
from kraftlog.metadata.values import is_internal
from kraftlog.node.handlers.consistency import linearizable_on_request
from kraftlog.node.handlers.metadata import (
    ALL_TOPIC_OPERATIONS,
    offline_replicas,
    unknown_topic_error,
)
from kraftlog.node.handlers.metadata_topic import describe_topic_from
from kraftlog.types import METADATA_TOPIC, NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import describe_topic_partitions as api

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kraftlog.metadata.values import PartitionImage
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: The default of Kafka's max.request.partition.size.limit.
MOST_PARTITIONS = 2000


@linearizable_on_request
def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: api.DescribeTopicPartitionsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> None:
    cursor = request.cursor
    names = {topic.name for topic in request.topics} or set(node.image.topic_ids)
    remaining_names = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    limit = min(max(request.response_partition_limit, 1), MOST_PARTITIONS)
    listener = pending.connection.listener_name
    unreachable = node.image.brokers_without(listener)
    topics, next_cursor = [], None
    for name in remaining_names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if limit <= 0:
            next_cursor = api.Cursor(topic_name=name, partition_index=first)
            break
        if name == METADATA_TOPIC:
            result = describe_topic_from(node, listener, ALL_TOPIC_OPERATIONS, first)
            is_whole = True
        else:
            result, is_whole = _topic(node, name, first, limit, unreachable)
        limit -= len(result.partitions)
        topics.append(result)
        if not is_whole:
            next_cursor = api.Cursor(
                topic_name=name, partition_index=first + len(result.partitions)
            )
            break
    pending.respond(api.DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor))


def _topic(
    node: ServingNode, name: str, first: int, limit: int, unreachable: Collection[int]
) -> tuple[api.DescribeTopicPartitionsResponseTopic, bool]:
    """The topic with up to `limit` partitions from index `first` on, and whether no more follow."""
    topic = node.image.topic_named(name)
    if topic is None:
        unknown = api.DescribeTopicPartitionsResponseTopic(
            error_code=unknown_topic_error(name),
            name=name,
            topic_id=NULL_UUID,
            partitions=(),
            topic_authorized_operations=ALL_TOPIC_OPERATIONS,
        )
        return unknown, True
    partitions = list(node.image.partitions_of(topic))[first:]
    result = api.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=name,
        topic_id=topic.id,
        is_internal=is_internal(name),
        partitions=list(_partitions(node, partitions[:limit], unreachable)),
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )
    return result, len(partitions) <= limit


def _partitions(
    node: ServingNode, partitions: Iterable[PartitionImage], unreachable: Collection[int]
) -> Iterable[api.DescribeTopicPartitionsResponsePartition]:
    for partition in partitions:
        yield api.DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else 0,
            partition_index=partition.index,
            leader_id=NO_LEADER if partition.leader in unreachable else partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            eligible_leader_replicas=partition.elr,
            last_known_elr=partition.last_known_elr,
            offline_replicas=offline_replicas(node.image, partition, unreachable),
        )

"""OffsetFetch 1-10: committed offsets of one group, or from version 8 on of several."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import offset_fetch as api

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: The first version with several groups.
SEVERAL_SINCE = 8
#: The first version with topic ids.
BY_ID_SINCE = 10
#: The first version with a top-level error code; before, each partition has it.
ERROR_SINCE = 2
#: Cost of a group without its partitions, and of a slice, in microseconds.
GROUP_COST = 10
SLICE_COST = 200


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: api.OffsetFetchRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    assert node.group_coordinators is not None
    groups = _without_repeats(request.groups)
    if pending.version < SEVERAL_SINCE:
        groups = [_as_group(request)]
    collector = _Collector(node, pending, groups)
    work = 0
    for position, group in enumerate(groups):
        shard = node.group_coordinators.shard_of(group.group_id)
        unknown = _name_topics(node.image, group, pending.version)
        work += GROUP_COST + sum(len(topic.partition_indexes) for topic in group.topics or ())
        if isinstance(shard, int):
            collector.put(
                position, api.OffsetFetchResponseGroup(group_id=group.group_id, error_code=shard)
            )
        else:
            receiver = _GroupReceiver(collector, position, unknown)
            shard.offset_fetch(receiver, group, request.require_stable)
        if work >= SLICE_COST:
            node.group_coordinators.settle(node.now)
            yield work
            work = 0
    node.group_coordinators.settle(node.now)


def _without_repeats(
    groups: Iterable[api.OffsetFetchRequestGroup],
) -> list[api.OffsetFetchRequestGroup]:
    """Drop a group's repeated requests for all offsets, which would multiply the response."""
    kept, requested_in_full = [], set()
    for group in groups:
        if group.topics is None:
            if group.group_id in requested_in_full:
                continue
            requested_in_full.add(group.group_id)
        kept.append(group)
    return kept


def _as_group(request: api.OffsetFetchRequest) -> api.OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            api.OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return api.OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _name_topics(
    image: Image, group: api.OffsetFetchRequestGroup, version: int
) -> list[api.OffsetFetchResponseTopics]:
    """Resolve topic ids to names; drop topics with unknown ids, and return errors for them."""
    if version < BY_ID_SINCE or group.topics is None:
        return []
    unknown, known = [], []
    for topic in group.topics:
        topic_image = image.topics.get(topic.topic_id)
        if topic_image is not None:
            topic.name = topic_image.name
            known.append(topic)
            continue
        unknown.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    group.topics = known
    return unknown


class _GroupReceiver:
    """Receives the response for one group."""

    __slots__ = ("_collector", "_position", "_unknown")

    def __init__(
        self, collector: _Collector, position: int, unknown: list[api.OffsetFetchResponseTopics]
    ) -> None:
        self._collector = collector
        self._position = position
        self._unknown = unknown

    def respond(self, response: api.OffsetFetchResponseGroup) -> None:
        if self._unknown:
            response.topics = [*response.topics, *self._unknown]
        self._collector.put(self._position, response)


class _Collector:
    """Collects the responses of all groups, then responds."""

    def __init__(
        self, node: ServingNode, pending: PendingResponse, groups: list[api.OffsetFetchRequestGroup]
    ) -> None:
        self._node = node
        self._pending = pending
        self._groups = groups
        self._responses: list[Any] = [None] * len(groups)
        self._missing = len(groups)
        if not groups:
            pending.respond(api.OffsetFetchResponse(groups=()))

    def put(self, position: int, response: api.OffsetFetchResponseGroup) -> None:
        assert self._responses[position] is None, "each group has one response"
        self._responses[position] = response
        self._missing -= 1
        if not self._missing:
            self._respond(self._responses)

    def _respond(self, groups: list[api.OffsetFetchResponseGroup]) -> None:
        version = self._pending.version
        if version >= BY_ID_SINCE:
            for group in groups:
                group.topics = [topic for topic in group.topics if self._set_id(topic)]
        if version >= SEVERAL_SINCE:
            response = api.OffsetFetchResponse(groups=groups)
            self._node.sliced.run(
                self._pending, self._pending.respond_in_steps(response, len(groups))
            )
            return
        [group] = groups
        code = group.error_code
        topics = group.topics
        if code and version < ERROR_SINCE:
            topics = [_refused(topic, code) for topic in self._groups[0].topics or ()]
            code = ErrorCode.NONE
        self._pending.respond(
            api.OffsetFetchResponse(
                topics=[_topic_before_groups(topic) for topic in topics], error_code=code
            )
        )

    def _set_id(self, topic: api.OffsetFetchResponseTopics) -> bool:
        """Set the id of a topic; False for offsets of deleted topics, which have none."""
        if topic.topic_id == NULL_UUID:
            topic.topic_id = self._node.image.topic_ids.get(topic.name, NULL_UUID)
        return topic.topic_id != NULL_UUID


def _refused(topic: api.OffsetFetchRequestTopics, code: int) -> api.OffsetFetchResponseTopics:
    """A topic with this error code for all partitions."""
    return api.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            api.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _topic_before_groups(topic: api.OffsetFetchResponseTopics) -> api.OffsetFetchResponseTopic:
    """The topic in the schema of versions before 8, whose responses have no groups."""
    return api.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            api.OffsetFetchResponsePartition(
                partition_index=part.partition_index,
                committed_offset=part.committed_offset,
                committed_leader_epoch=part.committed_leader_epoch,
                metadata=part.metadata,
                error_code=part.error_code,
            )
            for part in topic.partitions
        ],
    )

"""OffsetFetch 1-10: how far groups have read; one group, or from version 8 on several."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import offset_fetch as api

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

SEVERAL_SINCE = 8
BY_ID_SINCE = 10
#: Before it there was no place for an error of the whole but the partitions.
ERROR_SINCE = 2
#: What a group costs beside its partitions, and after how much work there is a pause, in
#: microseconds.
A_GROUP_COSTS = 10
A_STEP_COSTS = 200


def handle(
    node: Node,
    slot: PendingResponse,
    request: api.OffsetFetchRequest,
    now: Now,  # noqa: ARG001 - every handler is called alike
) -> Iterator[int]:
    assert node.group_coordinators is not None
    groups = _each_once(request.groups)
    if slot.version < SEVERAL_SINCE:
        groups = [_as_one_of_several(request)]
    gathering = _Collector(node, slot, groups)
    work = 0
    for place, group in enumerate(groups):
        shard = node.group_coordinators.shard_of(group.group_id)
        unknown = _name_topics(node.image, group, slot.version)
        work += A_GROUP_COSTS + sum(len(topic.partition_indexes) for topic in group.topics or ())
        if isinstance(shard, int):
            gathering.put(
                place, api.OffsetFetchResponseGroup(group_id=group.group_id, error_code=shard)
            )
        else:
            place_of = _GroupResult(gathering, place, unknown)
            shard.offset_fetch(place_of, group, request.require_stable)
        if work >= A_STEP_COSTS:
            node.group_coordinators.settle(node.now)
            yield work
            work = 0
    node.group_coordinators.settle(node.now)


def _each_once(
    groups: Iterable[api.OffsetFetchRequestGroup],
) -> list[api.OffsetFetchRequestGroup]:
    """Without those that ask for all of a group again: the answer would be much larger than the
    request."""
    kept, whole = [], set()
    for group in groups:
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole.add(group.group_id)
        kept.append(group)
    return kept


def _as_one_of_several(request: api.OffsetFetchRequest) -> api.OffsetFetchRequestGroup:
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
    """Where topics come by id, give them their names; those without any are answered here."""
    if version < BY_ID_SINCE or group.topics is None:
        return []
    unknown, known = [], []
    for topic in group.topics:
        found = image.topics.get(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
            continue
        unknown.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    group.topics = known
    return unknown


class _GroupResult:
    """Where the answer about one group goes."""

    __slots__ = ("_gathering", "_place", "_unknown")

    def __init__(
        self, gathering: _Collector, place: int, unknown: list[api.OffsetFetchResponseTopics]
    ) -> None:
        self._gathering = gathering
        self._place = place
        self._unknown = unknown

    def respond(self, response: api.OffsetFetchResponseGroup) -> None:
        if self._unknown:
            response.topics = [*response.topics, *self._unknown]
        self._gathering.put(self._place, response)


class _Collector:
    """The answer, which leaves once every group is in it."""

    def __init__(
        self, node: Node, slot: PendingResponse, groups: list[api.OffsetFetchRequestGroup]
    ) -> None:
        self._node = node
        self._slot = slot
        self._groups = groups
        self._found: list[Any] = [None] * len(groups)
        self._missing = len(groups)
        if not groups:
            slot.respond(api.OffsetFetchResponse(groups=()))

    def put(self, place: int, found: api.OffsetFetchResponseGroup) -> None:
        assert self._found[place] is None, "a group is answered once"
        self._found[place] = found
        self._missing -= 1
        if not self._missing:
            self._answer(self._found)

    def _answer(self, groups: list[api.OffsetFetchResponseGroup]) -> None:
        version = self._slot.version
        if version >= BY_ID_SINCE:
            for group in groups:
                group.topics = [topic for topic in group.topics if self._give_id(topic)]
        if version >= SEVERAL_SINCE:
            response = api.OffsetFetchResponse(groups=groups)
            self._node.sliced.run(self._slot, self._slot.respond_in_steps(response, len(groups)))
            return
        [one] = groups
        code = one.error_code
        topics = one.topics
        if code and version < ERROR_SINCE:
            topics = [_refused(topic, code) for topic in self._groups[0].topics or ()]
            code = ErrorCode.NONE
        self._slot.respond(
            api.OffsetFetchResponse(topics=[_old_topic(topic) for topic in topics], error_code=code)
        )

    def _give_id(self, topic: api.OffsetFetchResponseTopics) -> bool:
        """Whether a topic can be told of by its id: there are offsets of topics that are gone."""
        if topic.topic_id == NULL_UUID:
            topic.topic_id = self._node.image.topic_ids.get(topic.name, NULL_UUID)
        return topic.topic_id != NULL_UUID


def _refused(topic: api.OffsetFetchRequestTopics, code: int) -> api.OffsetFetchResponseTopics:
    """A topic all of whose partitions are told the code."""
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


def _old_topic(topic: api.OffsetFetchResponseTopics) -> api.OffsetFetchResponseTopic:
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

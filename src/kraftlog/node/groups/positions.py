"""OffsetCommit, OffsetFetch and OffsetDelete: topics by name or id, old forms and new ones.

A shard knows topics by both; what a request leaves out is filled in from the image, and what the
image does not know is refused here, as far as Kafka refuses it.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraftlog.wire.messages.offset_delete import (
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraftlog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.metadata.image import Image
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
    from kraftlog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestTopic
    from kraftlog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponseGroup

#: From this version on topics are named by id, in commits and fetches.
BY_ID_SINCE = 10
#: From this version on a fetch is of several groups.
GROUPS_SINCE = 8
#: From this version on a fetch has a place for what is wrong with all of it.
TOP_ERROR_SINCE = 2
NO_OFFSET = -1


def name_of(image: Image, topic_id: Uuid) -> str | None:
    topic = image.topics.get(topic_id)
    return None if topic is None else topic.name


# OffsetCommit ---------------------------------------------------------------------------------


def known_of_commit(
    image: Image, version: int, request: OffsetCommitRequest
) -> tuple[OffsetCommitRequest, list[OffsetCommitResponseTopic]]:
    """The request with what there is, and what is told of topics that there are not."""
    by_id = version >= BY_ID_SINCE
    known: list[OffsetCommitRequestTopic] = []
    unknown: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        name = name_of(image, topic.topic_id) if by_id else topic.name
        topic_id = topic.topic_id if by_id else image.topic_ids.get(topic.name)
        if name is not None and topic_id is not None:
            known.append(topic.replace(name=name, topic_id=topic_id))
            continue
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        parts = [
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ]
        refused = OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=parts
        )
        unknown.append(refused)
    return request.replace(topics=known), unknown


# OffsetFetch ----------------------------------------------------------------------------------


def asked_groups(version: int, request: OffsetFetchRequest) -> Sequence[OffsetFetchRequestGroup]:
    """The groups of a request, each in the form of version 8."""
    if version >= GROUPS_SINCE:
        return request.groups
    named = None
    if request.topics is not None:
        named = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=named)]


def known_of_fetch(
    image: Image, version: int, asked: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """As for a commit, but a topic that there is not may have offsets all the same, by name."""
    if asked.topics is None:
        return asked, []
    by_id = version >= BY_ID_SINCE
    known: list[OffsetFetchRequestTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in asked.topics:
        name = name_of(image, topic.topic_id) if by_id else topic.name
        if name is not None:
            topic_id = topic.topic_id if by_id else image.topic_ids.get(name, NULL_UUID)
            known.append(topic.replace(name=name, topic_id=topic_id))
            continue
        parts = [
            _no_position(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes
        ]
        unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=parts))
    return asked.replace(topics=known), unknown


def with_ids(image: Image, told: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
    """All offsets of a group, for who knows topics by id: those that have none are left out."""
    found = [
        topic.replace(topic_id=image.topic_ids[topic.name])
        for topic in told.topics
        if topic.name in image.topic_ids
    ]
    return told.replace(topics=found)


def fetched(
    version: int,
    asked: Sequence[OffsetFetchRequestGroup],
    told: Sequence[OffsetFetchResponseGroup],
) -> OffsetFetchResponse:
    """What all groups were told, in the form of the version."""
    if version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=told)
    [group] = told
    if not group.error_code:
        return OffsetFetchResponse(topics=[_old_form(topic) for topic in group.topics])
    if version >= TOP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=group.error_code)
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[_no_position(i, group.error_code) for i in topic.partition_indexes],
        )
        for topic in asked[0].topics or ()
    ]
    return OffsetFetchResponse(topics=[_old_form(topic) for topic in topics])


def _no_position(index: int, code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, error_code=code
    )


def _old_form(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=part.partition_index,
                committed_offset=part.committed_offset,
                committed_leader_epoch=part.committed_leader_epoch,
                metadata=part.metadata,
                error_code=part.error_code,
            )
            for part in topic.partitions
        ],
    )


# OffsetDelete ---------------------------------------------------------------------------------


def known_of_delete(
    image: Image, request: OffsetDeleteRequest
) -> tuple[OffsetDeleteRequest, list[OffsetDeleteResponseTopic]]:
    known: list[OffsetDeleteRequestTopic] = []
    unknown: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        if topic.name in image.topic_ids:
            known.append(topic)
            continue
        parts = [
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for part in topic.partitions
        ]
        unknown.append(OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
    return request.replace(topics=known), unknown

"""Who may commit and fetch offsets of a consumer group: members with the epoch that they have."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
)

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.consumer.stored import StoredConsumerGroup
    from kraftlog.wire.messages.offset_commit import OffsetCommitRequest
    from kraftlog.wire.messages.offset_fetch import OffsetFetchRequestGroup

#: The first version of OffsetCommit whose clients understand STALE_MEMBER_EPOCH.
COMMIT_BY_EPOCH_SINCE = 9


def commit_error(group: ConsumerGroup, version: int, request: OffsetCommitRequest) -> int:
    """The error code for a commit, or NONE.

    A member that has not heard of its new epoch yet may commit offsets of partitions that it has
    had since the epoch that it knows, or since an earlier one.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE  # an administrator, or a consumer without membership
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < COMMIT_BY_EPOCH_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch or (epoch < member.epoch and _had_all(member, epoch, request)):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _had_all(member: ConsumerMember, epoch: int, request: OffsetCommitRequest) -> bool:
    since = [
        member.owned_since(topic.topic_id, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]
    return all(each is not None and each <= epoch for each in since)


def fetch_error(stored: StoredConsumerGroup, request: OffsetFetchRequestGroup) -> int:
    """The error code for a fetch by a member of a committed group, or NONE."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member_id = request.member_id or ""
    metadata: Any = stored.value(ConsumerGroupMemberMetadataKey, member_id)
    if metadata is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    assignment: Any = stored.value(ConsumerGroupCurrentMemberAssignmentKey, member_id)
    epoch = 0 if assignment is None else assignment.member_epoch
    if request.member_epoch == epoch:
        return ErrorCode.NONE
    if metadata.classic_member_metadata is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH

"""OffsetCommit, OffsetFetch and OffsetDelete.

An offset is visible once its record is committed. A fetch of stable offsets waits for pending
writes, and reports partitions with open transactions.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.group import CONSUMER
from kraftlog.groups.pending_writes import coordinator_error
from kraftlog.groups.records import offset_record, offset_tombstone
from kraftlog.groups.states import GroupState
from kraftlog.groups.timers import Timer
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraftlog.wire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraftlog.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.groups.group import Group
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.messages import RequestContext
    from kraftlog.groups.records import GroupRecord
    from kraftlog.groups.stored_state import CommittedOffset
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
    )
    from kraftlog.wire.messages.offset_delete import OffsetDeleteRequest
    from kraftlog.wire.messages.offset_fetch import OffsetFetchRequestGroup

NO_OFFSET = -1
#: Number of offsets of a deleted topic that are removed at once.
REMOVED_AT_ONCE = 100
#: From this version on, a commit to an unknown group gets GROUP_ID_NOT_FOUND; before,
#: ILLEGAL_GENERATION.
GROUP_NOT_FOUND_SINCE = 9

# OffsetCommit ---------------------------------------------------------------------------------


def commit(
    shard: Shard, pending: object, context: RequestContext, request: OffsetCommitRequest, now: Now
) -> None:
    group = shard.groups.get(request.group_id)
    consumer_group = shard.consumer_groups.get(request.group_id)
    if consumer_group is not None:
        from kraftlog.groups.consumer.offsets import commit_error as commit_error_of_consumer

        group = None
        code = commit_error_of_consumer(consumer_group, context.version, request)
    else:
        code = _offset_commit_error(group, context, request)
    if code:
        shard.respond(pending, commit_response(request, lambda _: code))
        return
    if group is not None and group.state in {GroupState.STABLE, GroupState.PREPARING}:
        member = group.members[request.member_id]
        shard.restart_session(group, member, member.session_timeout_ms, now)
    check_metadata = _metadata_check(shard.config.offset_metadata_max_bytes)
    records = _commit_records(request, check_metadata, now)
    if not records:
        shard.respond(pending, commit_response(request, check_metadata))
        return
    if group is None and consumer_group is None:
        # A commit is enough to create a group: consumers without membership never join one.
        group = shard.new_group(request.group_id, now)

    def on_done(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        failed = coordinator_error(code)
        partition_code = (lambda _: failed) if failed else check_metadata
        shard.respond(pending, commit_response(request, partition_code))

    def undo(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        if group is not None:
            shard.drop_if_unused(group)

    shard.writes.submit(records, now, on_done, undo)


def commit_response(
    request: OffsetCommitRequest, code: Callable[[OffsetCommitRequestPartition], int]
) -> OffsetCommitResponse:
    """A response with an error code for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=code(part)
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_commit_error(
    group: Group | None, context: RequestContext, request: OffsetCommitRequest
) -> int:
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        if context.version >= GROUP_NOT_FOUND_SINCE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    code = commit_error(
        group, request.member_id, request.group_instance_id, generation, is_transactional=False
    )
    if not code and group.state == GroupState.COMPLETING:
        # The member knows the new generation, but may commit only once it has its assignment.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return code


def commit_error(
    group: Group, member_id: str, instance_id: str | None, generation: int, is_transactional: bool
) -> int:
    """The error code for a commit of offsets, in a transaction or not, or NONE."""
    if group.state == GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state == GroupState.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or member_id or instance_id is not None:
        code = group.membership_error(member_id, instance_id)
        if not code and generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return code
    # Transactional commits of old clients carry no member id.
    return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID


def _metadata_check(max_size: int) -> Callable[[OffsetCommitRequestPartition], int]:
    """A check of the metadata's size in UTF-16 units, as in Java; it returns an error code."""

    def code(part: OffsetCommitRequestPartition) -> int:
        metadata = part.committed_metadata or ""
        too_large = (
            2 * len(metadata) > max_size and len(metadata.encode("utf-16-le")) // 2 > max_size
        )
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE

    return code


def _commit_records(
    request: OffsetCommitRequest,
    check_metadata: Callable[[OffsetCommitRequestPartition], int],
    now: Now,
) -> list[GroupRecord]:
    retention_ms = request.retention_time_ms
    expires = -1 if retention_ms == -1 else now.wall_ms + retention_ms
    return [
        offset_record(request.group_id, topic.name, topic.topic_id, part, now.wall_ms, expires)
        for topic in request.topics
        for part in topic.partitions
        if not check_metadata(part)
    ]


# OffsetFetch ----------------------------------------------------------------------------------


def fetch(
    shard: Shard, pending: object, group_request: OffsetFetchRequestGroup, require_stable: bool
) -> None:
    if not require_stable or group_request.group_id not in shard.writes.offsets:
        shard.respond(pending, _fetch_response(shard, group_request, require_stable))
        return

    def on_done(code: int, now: Now) -> None:  # noqa: ARG001 - an OnDone callback
        if code:
            # The only code that makes every client look up the coordinator again.
            shard.respond(
                pending, fetch_error_response(group_request.group_id, ErrorCode.NOT_COORDINATOR)
            )
        else:
            shard.respond(pending, _fetch_response(shard, group_request, require_stable))

    shard.writes.after_pending(on_done)


def fetch_error_response(group_id: str, code: int) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=code)


def _fetch_response(
    shard: Shard, group_request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Offsets of the given topics, or of all topics for None."""
    group_id = group_request.group_id
    consumer_group = shard.durable.consumer_groups.get(group_id)
    if consumer_group is not None:
        from kraftlog.groups.consumer.offsets import fetch_error

        code = fetch_error(consumer_group, group_request)
        if code:
            return fetch_error_response(group_id, code)
    topics = group_request.topics
    if topics is None:
        stored = shard.durable.offsets.by_group.get(group_id, {})
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=tuple(partitions))
            for name, partitions in stored.items()
        ]
    return OffsetFetchResponseGroup(
        group_id=group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _partition_response(shard, group_id, topic, index, require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ],
    )


def _partition_response(
    shard: Shard,
    group_id: str,
    topic: OffsetFetchRequestTopics,
    index: int,
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    committed = shard.durable.offsets.get(group_id, topic.name, index)
    code = ErrorCode.NONE
    if require_stable and shard.durable.is_unstable(group_id, topic.name, index):
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    if code or committed is None or _is_of_former_topic(committed, topic.topic_id):
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=code
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _is_of_former_topic(committed: CommittedOffset, topic_id: Uuid) -> bool:
    """Whether the offset was committed for a former topic of the same name."""
    return NULL_UUID not in {committed.topic_id, topic_id} and committed.topic_id != topic_id


# OffsetDelete ---------------------------------------------------------------------------------


def delete(shard: Shard, pending: object, request: OffsetDeleteRequest, now: Now) -> None:
    group = shard.consumer_groups.get(request.group_id) or shard.groups.get(request.group_id)
    code = _delete_error(group, request.group_id)
    if code or group is None:
        shard.respond(pending, OffsetDeleteResponse(error_code=code, topics=()))
        return
    response = OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index,
                        error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                        if group.subscribes_to(topic.name)
                        else ErrorCode.NONE,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    keys = offset_keys(shard, request.group_id)
    records = [
        offset_tombstone(request.group_id, topic.name, part.partition_index)
        for topic in request.topics
        if not group.subscribes_to(topic.name)
        for part in topic.partitions
        if (topic.name, part.partition_index) in keys
    ]
    if not records:
        shard.respond(pending, response)
        return

    def on_done(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        failed = OffsetDeleteResponse(error_code=coordinator_error(code), topics=())
        shard.respond(pending, failed if code else response)

    shard.writes.submit(records, now, on_done)


def _delete_error(group: Group | ConsumerGroup | None, group_id: str) -> int:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    if group is None or group.state == GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state != GroupState.EMPTY and group.protocol_type != CONSUMER:
        # Subscriptions of other protocol types are unknown.
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def offset_keys(shard: Shard, group_id: str) -> dict[tuple[str, int], None]:
    """Every partition with a committed or pending offset of the group."""
    keys = shard.durable.all_keys(group_id)
    keys.update(dict.fromkeys(shard.writes.offsets.get(group_id, ())))
    return keys


def delete_offsets_of_partitions(
    shard: Shard, topic: str, topic_id: Uuid, first: int, now: Now
) -> None:
    """Delete the offsets of deleted partitions, but not those of a new topic of the same name."""
    remaining = deque(
        (group_id, index, committed)
        for group_id, index, committed in shard.durable.offsets.of_topic(topic)
        if index >= first and committed.topic_id in {NULL_UUID, topic_id}
    )
    if remaining:
        _remove_some(shard, topic, remaining, now)


def _remove_some(
    shard: Shard, topic: str, remaining: deque[tuple[str, int, CommittedOffset]], now: Now
) -> None:
    """Delete some of these offsets, unless a group has committed since; the rest follow later."""
    records: list[GroupRecord] = []
    while remaining and len(records) < REMOVED_AT_ONCE:
        group_id, index, committed = remaining.popleft()
        if shard.durable.offsets.get(group_id, topic, index) is committed:
            records.append(offset_tombstone(group_id, topic, index))
    shard.writes.submit_parts(records, now)
    if remaining:
        timer = Timer(lambda later: _remove_some(shard, topic, remaining, later))
        shard.timers.set(timer, now.monotonic_ms + 1)

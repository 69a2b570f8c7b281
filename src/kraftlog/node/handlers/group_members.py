"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete: passed to the shard."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.messages import RequestContext
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.groups.shard import GroupShard
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: The first version of OffsetCommit with topic ids.
COMMIT_BY_ID_SINCE = 10
#: The first version of JoinGroup whose response may have a null protocol.
JOIN_WITHOUT_PROTOCOL_SINCE = 7
#: The first version of SyncGroup with the protocol, which must be the group's.
SYNC_BY_PROTOCOL_SINCE = 5


def handle(node: ServingNode, pending: PendingResponse, request: Any, now: Now) -> None:
    assert pending.api is not None
    assert node.group_coordinators is not None
    shard = node.group_coordinators.shard_of(request.group_id)
    if not request.group_id and pending.api.key != ApiKey.OFFSET_COMMIT:
        # The oldest clients commit offsets with an empty group id.
        shard = ErrorCode.INVALID_GROUP_ID
    elif pending.api.key == ApiKey.SYNC_GROUP and _lacks_protocol(pending, request):
        shard = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if isinstance(shard, int):
        pending.respond(_error_response(pending, request, shard))
        return
    _dispatch(node, shard, pending, request, now)
    node.group_coordinators.settle(now)


def _lacks_protocol(pending: PendingResponse, request: Any) -> bool:
    """Whether a SyncGroup lacks the protocol that its version requires."""
    is_named = request.protocol_type is not None and request.protocol_name is not None
    return pending.version >= SYNC_BY_PROTOCOL_SINCE and not is_named


def context_of(pending: PendingResponse) -> RequestContext:
    return RequestContext(pending.version, pending.client_id or "", f"/{pending.connection.host}")


def _dispatch(
    node: ServingNode, shard: GroupShard, pending: PendingResponse, request: Any, now: Now
) -> None:
    assert pending.api is not None
    key = pending.api.key
    if key == ApiKey.JOIN_GROUP:
        is_old = pending.version < JOIN_WITHOUT_PROTOCOL_SINCE
        shard.join_group(
            _NonNullProtocol(pending) if is_old else pending, context_of(pending), request, now
        )
    elif key == ApiKey.SYNC_GROUP:
        shard.sync_group(pending, request, now)
    elif key == ApiKey.HEARTBEAT:
        shard.heartbeat(pending, request, now)
    elif key == ApiKey.LEAVE_GROUP:
        shard.leave_group(pending, context_of(pending), request, now)
    elif key == ApiKey.OFFSET_DELETE:
        _delete(node, shard, pending, request, now)
    else:
        _commit(node, shard, pending, request, now)


def _commit(
    node: ServingNode, shard: GroupShard, pending: PendingResponse, request: Any, now: Now
) -> None:
    """Commit the offsets of existing partitions, with topic name and id; others get an error."""
    from kraftlog.wire.messages.offset_commit import (
        OffsetCommitResponsePartition,
        OffsetCommitResponseTopic,
    )

    by_id = pending.version >= COMMIT_BY_ID_SINCE
    image = node.image
    refused, existing = [], []
    for topic in request.topics:
        if by_id:
            topic_image = image.topics.get(topic.topic_id)
            topic.name = "" if topic_image is None else topic_image.name
        else:
            topic_image = image.topic_named(topic.name)
            topic.topic_id = NULL_UUID if topic_image is None else topic_image.id
        kept: list[Any] = []
        missing: list[Any] = []
        count = 0 if topic_image is None else topic_image.partition_count
        for part in topic.partitions:
            (kept if 0 <= part.partition_index < count else missing).append(part)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if by_id and topic_image is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        if missing:
            refused.append(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=part.partition_index, error_code=code
                        )
                        for part in missing
                    ],
                )
            )
        if kept:
            topic.partitions = kept
            existing.append(topic)
    request.topics = existing
    shard.offset_commit(_WithRefusedTopics(pending, refused), context_of(pending), request, now)


def _delete(
    node: ServingNode, shard: GroupShard, pending: PendingResponse, request: Any, now: Now
) -> None:
    """Delete the offsets of existing topics; unknown topics get an error."""
    from kraftlog.wire.messages.offset_delete import (
        OffsetDeleteResponsePartition,
        OffsetDeleteResponseTopic,
    )

    ids = node.image.topic_ids
    refused = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=part.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.name not in ids
    ]
    request.topics = [topic for topic in request.topics if topic.name in ids]
    shard.offset_delete(_WithRefusedTopics(pending, refused), request, now)


class _WithRefusedTopics:
    """A response to which the errors of refused topics and partitions are added."""

    __slots__ = ("_pending", "_refused")

    def __init__(self, pending: PendingResponse, refused: list[Any]) -> None:
        self._pending = pending
        self._refused = refused

    def respond(self, response: Any) -> None:
        response.topics = [*response.topics, *self._refused]
        self._pending.respond(response)


class _NonNullProtocol:
    """A response whose version has no null protocol: an empty one takes its place."""

    __slots__ = ("_pending",)

    def __init__(self, pending: PendingResponse) -> None:
        self._pending = pending

    def respond(self, response: Any) -> None:
        response.protocol_name = response.protocol_name or ""
        self._pending.respond(response)


def _error_response(pending: PendingResponse, request: Any, code: int) -> Any:
    assert pending.api is not None
    response: Any = pending.api.response()
    key = pending.api.key
    if key == ApiKey.OFFSET_COMMIT:
        from kraftlog.groups.offsets import commit_response

        return commit_response(request, lambda _: code)
    if key == ApiKey.JOIN_GROUP:
        return response(
            error_code=code,
            generation_id=-1,
            protocol_name="" if pending.version < JOIN_WITHOUT_PROTOCOL_SINCE else None,
            leader="",
            member_id=request.member_id,
            members=(),
        )
    if key == ApiKey.OFFSET_DELETE:
        return response(error_code=code, topics=())
    if key == ApiKey.SYNC_GROUP:
        return response(error_code=code, assignment=b"")
    if key == ApiKey.HEARTBEAT and code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # While the group is loading, heartbeats succeed: no rebalance can have begun.
        return response(error_code=ErrorCode.NONE)
    return response(error_code=code)

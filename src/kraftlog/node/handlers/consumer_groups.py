"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: served while group.version is 1."""

from __future__ import annotations

from kraftlog.authorization.acls import Operation, ResourceType
from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.describe import error_result
from kraftlog.groups.consumer.heartbeat import error_response
from kraftlog.metadata.features import GROUP_VERSION
from kraftlog.node.access import asked_of
from kraftlog.node.error_responses import error_response as response_to_all
from kraftlog.node.handlers.group_admin import describe_in_steps
from kraftlog.node.handlers.group_members import context_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.consumer_group_describe import DescribedGroup

#: The protocol in group.coordinator.rebalance.protocols.
PROTOCOL = "consumer"


def handle(
    node: ServingNode, pending: PendingResponse, request: Any, now: Now
) -> Iterator[int] | None:
    assert pending.api is not None
    coordinators = node.group_coordinators
    assert coordinators is not None
    key = pending.api.key
    if not is_enabled(node):
        code = ErrorCode.UNSUPPORTED_VERSION
        pending.respond(response_to_all(key, pending.version, request, code))
        return None
    if key == ApiKey.CONSUMER_GROUP_DESCRIBE:
        return describe_in_steps(
            node,
            pending,
            request.group_ids,
            lambda group_id: _described(coordinators, group_id),
            ConsumerGroupDescribeResponse,
            with_operations=request.include_authorized_operations,
        )
    shard = coordinators.shard_of(request.group_id)
    if isinstance(shard, int):
        # A request about an empty id is wrong, whichever broker has the group.
        is_named = bool(request.group_id)
        pending.respond(
            error_response(shard)
            if is_named
            else error_response(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        )
        return None
    context = context_of(pending)
    asked = asked_of(node, pending, request)
    if asked is not None:
        context = context.replace(
            may_describe=lambda name: asked.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
        )
    shard.consumer_group_heartbeat(pending, context, request, now)
    coordinators.settle(now)
    return None


def is_enabled(node: ServingNode) -> bool:
    """Whether the cluster has the consumer protocol, and this broker serves it."""
    protocols = node.config.settings.group_coordinator_rebalance_protocols
    return node.image.features.get(GROUP_VERSION, 0) > 0 and PROTOCOL in protocols


def _described(coordinators: GroupCoordinators, group_id: str) -> DescribedGroup:
    if not group_id:
        return error_result(group_id, ErrorCode.INVALID_GROUP_ID)
    shard = coordinators.shard_of(group_id)
    if isinstance(shard, int):
        return error_result(group_id, shard)
    return shard.describe_consumer_group(group_id)

"""ListGroups, DescribeGroups, DeleteGroups, over all shards of this broker."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.admin import CLASSIC, CONSUMER
from kraftlog.groups.consumer.states import CONSUMER_GROUP_STATES
from kraftlog.groups.states import VALID_PREVIOUS_STATES
from kraftlog.node.handlers.group_members import context_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kraftlog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kraftlog.wire.messages.list_groups import ListGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from kraftlog.groups.messages import RequestContext
    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: All operations on a group, without an authorizer, as bits: read, delete, describe, describe
#: configs, alter configs.
ALL_OPERATIONS = sum([1 << operation for operation in (3, 6, 8, 10, 11)])
STATES = tuple(dict.fromkeys((*VALID_PREVIOUS_STATES, *CONSUMER_GROUP_STATES)))
#: The cost of a group, besides 1 for each member, and of a slice, in microseconds.
GROUP_COST = 10
SLICE_COST = 200


def handle(
    node: ServingNode, pending: PendingResponse, request: Any, now: Now
) -> Iterator[int] | None:
    assert pending.api is not None
    coordinators = node.group_coordinators
    assert coordinators is not None
    if pending.api.key == ApiKey.DESCRIBE_GROUPS:
        context = context_of(pending)
        return describe_in_steps(
            node,
            pending,
            request.groups,
            lambda group_id: _described(coordinators, context, group_id),
            DescribeGroupsResponse,
            with_operations=request.include_authorized_operations,
        )
    if pending.api.key == ApiKey.LIST_GROUPS:
        pending.respond(_listed(coordinators, request))
    else:
        _delete(coordinators, pending, list(dict.fromkeys(request.groups_names)), now)
    coordinators.settle(now)
    return None


def _listed(coordinators: GroupCoordinators, request: Any) -> ListGroupsResponse:
    groups, code = [], int(ErrorCode.NONE)
    # Few states and types exist, however many names a request has.
    states = _existing(request.states_filter, STATES)
    types = _existing(request.types_filter, (CLASSIC, CONSUMER))
    for shard in coordinators.shards():
        if shard.is_loaded:
            groups += shard.list_groups(states, types)
        else:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ListGroupsResponse(error_code=code, groups=groups)


def _existing(names: Sequence[str], existing: Sequence[str]) -> tuple[str, ...]:
    """The names that exist, ignoring case; () filters nothing out, ("",) matches nothing."""
    if not names:
        return ()
    lower_names = {name.lower() for name in names}
    return tuple([name for name in existing if name.lower() in lower_names]) or ("",)


def _described(
    coordinators: GroupCoordinators, context: RequestContext, group_id: str
) -> DescribedGroup:
    shard = coordinators.shard_of(group_id)
    if isinstance(shard, int):
        return DescribedGroup(
            error_code=shard,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=(),
        )
    [described] = shard.describe_groups(context, [group_id])
    return described


def describe_in_steps(
    node: ServingNode,
    pending: PendingResponse,
    group_ids: Iterable[str],
    describe: Callable[[str], Any],
    response_type: Any,
    *,
    with_operations: bool,
) -> Iterator[int]:
    """Respond with a result for each requested group: some clients crash if one is missing."""
    coordinators = node.group_coordinators
    assert coordinators is not None
    groups = []
    work = 0
    for group_id in dict.fromkeys(group_ids):
        if work >= SLICE_COST:
            coordinators.settle(node.now)
            yield work
            work = 0
        described = describe(group_id)
        if with_operations and not described.error_code:
            described.authorized_operations = ALL_OPERATIONS
        groups.append(described)
        work += GROUP_COST + len(described.members)
    coordinators.settle(node.now)
    yield work
    yield from pending.respond_in_steps(response_type(groups=groups), len(groups))


def _delete(
    coordinators: GroupCoordinators, pending: PendingResponse, group_ids: list[str], now: Now
) -> None:
    collector = _DeleteCollector(pending, len(group_ids))
    for group_id in group_ids:
        shard = coordinators.shard_of(group_id)
        if isinstance(shard, int):
            result = DeletableGroupResult(group_id=group_id, error_code=shard)
            collector.respond(DeleteGroupsResponse(results=[result]))
        else:
            shard.delete_groups(collector, [group_id], now)


class _DeleteCollector:
    """Collects the results of shards and responds when they are complete."""

    def __init__(self, pending: PendingResponse, count: int) -> None:
        self._pending = pending
        self._missing = count
        self._results: list[DeletableGroupResult] = []
        if not count:
            pending.respond(DeleteGroupsResponse(results=()))

    def respond(self, response: DeleteGroupsResponse) -> None:
        self._results += response.results
        self._missing -= len(response.results)
        if not self._missing:
            self._pending.respond(DeleteGroupsResponse(results=self._results))

"""ListGroups, DescribeGroups, DeleteGroups: what administrators ask of all shards here."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.handlers.group_members import context_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kraftlog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kraftlog.wire.messages.list_groups import ListGroupsResponse

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: What may be done with a group where nobody is kept from anything, as bits: read, delete,
#: describe, describe configs, alter configs.
ALL_OPERATIONS = sum([1 << operation for operation in (3, 6, 8, 10, 11)])


def handle(node: Node, slot: PendingResponse, request: Any, now: Now) -> None:
    assert slot.api is not None
    coordinators = node.group_coordinators
    assert coordinators is not None
    if slot.api.key == ApiKey.LIST_GROUPS:
        slot.respond(_listed(coordinators, request))
    elif slot.api.key == ApiKey.DESCRIBE_GROUPS:
        slot.respond(_described(coordinators, slot, request))
    else:
        _delete(coordinators, slot, list(dict.fromkeys(request.groups_names)), now)
    coordinators.settle(now)


def _listed(coordinators: GroupCoordinators, request: Any) -> ListGroupsResponse:
    groups, code = [], int(ErrorCode.NONE)
    for shard in coordinators.shards():
        if shard.is_loaded:
            groups += shard.list_groups(request.states_filter, request.types_filter)
        else:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ListGroupsResponse(error_code=code, groups=groups)


def _described(
    coordinators: GroupCoordinators, slot: PendingResponse, request: Any
) -> DescribeGroupsResponse:
    """One result for each group that was asked for: some clients die of a missing one."""
    found = []
    for group_id in dict.fromkeys(request.groups):
        shard = coordinators.shard_of(group_id)
        if isinstance(shard, int):
            found.append(
                DescribedGroup(
                    error_code=shard,
                    group_id=group_id,
                    group_state="",
                    protocol_type="",
                    protocol_data="",
                    members=(),
                )
            )
            continue
        [described] = shard.describe_groups(context_of(slot), [group_id])
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = ALL_OPERATIONS
        found.append(described)
    return DescribeGroupsResponse(groups=found)


def _delete(
    coordinators: GroupCoordinators, slot: PendingResponse, group_ids: list[str], now: Now
) -> None:
    gathering = _DeleteCollector(slot, len(group_ids))
    for group_id in group_ids:
        shard = coordinators.shard_of(group_id)
        if isinstance(shard, int):
            result = DeletableGroupResult(group_id=group_id, error_code=shard)
            gathering.respond(DeleteGroupsResponse(results=[result]))
        else:
            shard.delete_groups(gathering, [group_id], now)


class _DeleteCollector:
    """Gathers the results, and answers once all are there."""

    def __init__(self, slot: PendingResponse, count: int) -> None:
        self._slot = slot
        self._missing = count
        self._results: list[DeletableGroupResult] = []
        if not count:
            slot.respond(DeleteGroupsResponse(results=()))

    def respond(self, response: DeleteGroupsResponse) -> None:
        self._results += response.results
        self._missing -= len(response.results)
        if not self._missing:
            self._slot.respond(DeleteGroupsResponse(results=self._results))

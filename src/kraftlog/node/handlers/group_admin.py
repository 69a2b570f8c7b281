"""ListGroups, DescribeGroups, DeleteGroups: what administrators ask of all shards here."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.handlers.group_members import asker_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kraftlog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kraftlog.wire.messages.list_groups import ListGroupsResponse

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.coordinating import Coordinating
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now

#: What may be done with a group where nobody is kept from anything, as bits: read, delete,
#: describe, describe configs, alter configs.
ALL_OPERATIONS = sum([1 << operation for operation in (3, 6, 8, 10, 11)])


def handle(node: Node, slot: Slot, request: Any, now: Now) -> None:
    assert slot.api is not None
    coordinating = node.coordinating
    assert coordinating is not None
    if slot.api.key == ApiKey.LIST_GROUPS:
        slot.answer(_listed(coordinating, request))
    elif slot.api.key == ApiKey.DESCRIBE_GROUPS:
        slot.answer(_described(coordinating, slot, request))
    else:
        _delete(coordinating, slot, list(dict.fromkeys(request.groups_names)), now)
    coordinating.settle(now)


def _listed(coordinating: Coordinating, request: Any) -> ListGroupsResponse:
    groups, code = [], int(ErrorCode.NONE)
    for shard in coordinating.shards():
        if shard.is_loaded:
            groups += shard.list_groups(request.states_filter, request.types_filter)
        else:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ListGroupsResponse(error_code=code, groups=groups)


def _described(coordinating: Coordinating, slot: Slot, request: Any) -> DescribeGroupsResponse:
    """One result for each group that was asked for: some clients die of a missing one."""
    found = []
    for group_id in dict.fromkeys(request.groups):
        shard = coordinating.shard_of(group_id)
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
        [described] = shard.describe_groups(asker_of(slot), [group_id])
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = ALL_OPERATIONS
        found.append(described)
    return DescribeGroupsResponse(groups=found)


def _delete(coordinating: Coordinating, slot: Slot, group_ids: list[str], now: Now) -> None:
    gathering = _Deleting(slot, len(group_ids))
    for group_id in group_ids:
        shard = coordinating.shard_of(group_id)
        if isinstance(shard, int):
            result = DeletableGroupResult(group_id=group_id, error_code=shard)
            gathering.answer(DeleteGroupsResponse(results=[result]))
        else:
            shard.delete_groups(gathering, [group_id], now)


class _Deleting:
    """Gathers the results, and answers once all are there."""

    def __init__(self, slot: Slot, count: int) -> None:
        self._slot = slot
        self._missing = count
        self._results: list[DeletableGroupResult] = []
        if not count:
            slot.answer(DeleteGroupsResponse(results=()))

    def answer(self, response: DeleteGroupsResponse) -> None:
        self._results += response.results
        self._missing -= len(response.results)
        if not self._missing:
            self._slot.answer(DeleteGroupsResponse(results=self._results))

"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.offsets import offset_keys
from kraftlog.groups.pending_writes import coordinator_error
from kraftlog.groups.records import group_tombstone, offset_tombstone
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kraftlog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kraftlog.wire.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.group import Group
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.messages import RequestContext
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now

#: The types of groups.
CLASSIC, CONSUMER = "classic", "consumer"
#: From this version of DescribeGroups on, an unknown group is an error; before, it is reported as
#: Dead.
NOT_FOUND_SINCE = 6


def list_groups(shard: Shard, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
    """Groups in these states and of these types, case-insensitive; all if none are given."""
    wanted_types = {name.lower() for name in types} or {CLASSIC, CONSUMER}
    listed = []
    if CLASSIC in wanted_types:
        listed += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state,
                group_type=CLASSIC,
            )
            for group in shard.groups.values()
            if group.group_id not in shard.consumer_groups
        ]
    if CONSUMER in wanted_types and shard.consumer_groups:
        from kraftlog.groups.consumer.describe import committed_group

        listed += [
            ListedGroup(
                group_id=group_id,
                protocol_type=CONSUMER,
                group_state=group.state,
                group_type=CONSUMER,
            )
            for group_id in shard.consumer_groups
            if (group := committed_group(shard, group_id)) is not None
        ]
    wanted = {name.lower() for name in states}
    return [each for each in listed if not wanted or each.group_state.lower() in wanted]


def describe(shard: Shard, context: RequestContext, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    is_consumer_group = group_id in shard.consumer_groups
    if group is None or is_consumer_group:
        is_error = context.version >= NOT_FOUND_SINCE
        what = "is not a classic group" if is_consumer_group else "not found"
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            error_message=f"Group {group_id} {what}." if is_error else None,
            group_id=group_id,
            group_state=GroupState.DEAD,
            protocol_type="",
            protocol_data="",
            members=(),
        )
    is_stable = group.state == GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                # Kafka too shows it for a stable group only: others may have no protocol.
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def delete(shard: Shard, pending: object, group_ids: Sequence[str], now: Now) -> None:
    """Delete groups without members and their offsets, in one batch."""
    codes: dict[str, int] = {}
    deleted: list[Group | ConsumerGroup] = []
    records: list[GroupRecord] = []
    for group_id in dict.fromkeys(group_ids):
        group = shard.consumer_groups.get(group_id) or shard.groups.get(group_id)
        codes[group_id] = _delete_error(group)
        if group is not None and not codes[group_id]:
            records += begin_deletion(shard, group, now)
            deleted.append(group)
    if not deleted:
        shard.respond(pending, _delete_response(codes))
        return

    def on_done(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        if code:
            codes.update({group.group_id: coordinator_error(code) for group in deleted})
        shard.respond(pending, _delete_response(codes))

    def undo(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        for group in deleted:
            undo_deletion(shard, group, later)

    consumer_groups = [each.group_id for each in deleted if isinstance(each, ConsumerGroup)]
    shard.writes.submit(records, now, on_done, undo, group_ids=tuple(consumer_groups))


def begin_deletion(shard: Shard, group: Group | ConsumerGroup, now: Now) -> list[GroupRecord]:
    """Delete a group in memory and return its tombstones; if their write fails, undo it.

    A classic group is Dead until they are committed; a consumer group is gone, and its id is free.
    """
    group_id = group.group_id
    records = [offset_tombstone(group_id, *key) for key in offset_keys(shard, group_id)]
    if not isinstance(group, ConsumerGroup):
        group.enter(GroupState.DEAD, now)
        return [*records, group_tombstone(group_id)]
    from kraftlog.groups.consumer.records import removed_group

    tombstones = removed_group(group)
    for record in tombstones:
        shard.apply_to_consumer_group(group_id, record)
    return records + tombstones


def undo_deletion(shard: Shard, group: Group | ConsumerGroup, now: Now) -> None:
    if isinstance(group, ConsumerGroup):
        shard.rebuild_consumer_group(group.group_id, now)
    else:
        group.enter(GroupState.EMPTY, now)


def _delete_error(group: Group | ConsumerGroup | None) -> int:
    if group is None or group.state == GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state == GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def _delete_response(codes: dict[str, int]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        ]
    )

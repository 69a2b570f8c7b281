"""Rebalances: all join anew, one of them assigns, all get their part.

`prepare` begins one, `complete` ends the joining when everybody is here or the time is over, the
leader's SyncGroup ends the whole. A group without members becomes empty on the same way.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups import join, members
from kraftlog.groups.records import group_record
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.groups.group import Group
    from kraftlog.groups.member import Member
    from kraftlog.groups.shard import GroupShard
    from kraftlog.types import Now


def prepare_or_complete(shard: GroupShard, group: Group, now: Now) -> None:
    """Something about the members has changed: they have to agree anew, if they do not already."""
    if group.can_rebalance:
        prepare(shard, group, now)
    else:
        maybe_complete(shard, group, now)


def members_left(shard: GroupShard, group: Group, now: Now) -> None:
    """Some are gone by their own wish: the others share what they had."""
    if group.state in {GroupState.STABLE, GroupState.COMPLETING}:
        prepare(shard, group, now)
    else:
        maybe_complete(shard, group, now)


def prepare(shard: GroupShard, group: Group, now: Now) -> None:
    """Begin a rebalance: who waits for an assignment is told to join again."""
    if group.state == GroupState.COMPLETING:
        members.give_nothing(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    group.pending_syncs.clear()
    shard.timers.cancel(group.sync_timer)
    is_first = group.state == GroupState.EMPTY
    group.enter(GroupState.PREPARING, now)
    if is_first:
        # Those who start together should make one generation together.
        delay_ms = shard.config.initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.member_added = False
        shard.timers.set(group.join_timer, now.monotonic_ms + delay_ms)
    elif group.all_joined:
        complete(shard, group, now)
    else:
        shard.timers.set(group.join_timer, now.monotonic_ms + group.rebalance_timeout_ms)


def maybe_complete(shard: GroupShard, group: Group, now: Now) -> None:
    """The last one may have joined. The first members of a group have a time of their own."""
    if (
        group.state == GroupState.PREPARING
        and group.initial_remaining_ms is None
        and group.all_joined
    ):
        complete(shard, group, now)


def join_time_over(shard: GroupShard, group: Group, now: Now) -> None:
    remaining_ms = group.initial_remaining_ms
    if remaining_ms is not None and group.member_added and remaining_ms:
        # Somebody came while we waited, so more may: as long again, within the members' patience.
        delay_ms = min(shard.config.initial_rebalance_delay_ms, remaining_ms)
        group.member_added = False
        group.initial_remaining_ms = remaining_ms - delay_ms
        shard.timers.set(group.join_timer, now.monotonic_ms + delay_ms)
    else:
        complete(shard, group, now)


def complete(shard: GroupShard, group: Group, now: Now) -> None:
    """The joining is over: whoever is missing is out, but for static members, who may be away."""
    shard.timers.cancel(group.join_timer)
    group.initial_remaining_ms = None
    for member in list(group.members.values()):
        if member.joining is None and member.instance_id is None:
            shard.dismiss(group, member.member_id)
    if group.members and not group.elect_leader():
        # Static members only, and none is here: wait on, until they come or their sessions end.
        shard.timers.set(group.join_timer, now.monotonic_ms + group.rebalance_timeout_ms)
        return
    group.next_generation(now)
    if group.members:
        join.notify_generation(shard, group, now)
        shard.timers.set(group.sync_timer, now.monotonic_ms + group.rebalance_timeout_ms)
    else:
        # Should this fail, the generation before is what a later coordinator finds; its members
        # are gone and will be found to be.
        shard.writes.submit([group_record(group, {})], now)


def sync_time_over(shard: GroupShard, group: Group, now: Now) -> None:
    """Whoever has joined and not asked for an assignment is out."""
    for member_id in list(group.pending_syncs):
        shard.dismiss(group, member_id)
    prepare(shard, group, now)


def session_over(shard: GroupShard, group: Group, member: Member, now: Now) -> None:
    """Nothing was heard of a member for the time of its session."""
    if not member.excused:
        remove(shard, group, member.member_id, now)


def pending_over(shard: GroupShard, group: Group, member_id: str, now: Now) -> None:
    """Who was given an id has not come back with it."""
    shard.dismiss(group, member_id)
    if group.state == GroupState.PREPARING and group.all_joined:
        complete(shard, group, now)


def remove(shard: GroupShard, group: Group, member_id: str, now: Now) -> None:
    """A member is gone: the others share what it had."""
    shard.dismiss(group, member_id)
    if group.state in {GroupState.STABLE, GroupState.COMPLETING}:
        prepare(shard, group, now)
    elif group.state == GroupState.PREPARING and group.all_joined:
        complete(shard, group, now)

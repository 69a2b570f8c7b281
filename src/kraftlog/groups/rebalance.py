"""Rebalances: all members join, the leader assigns, all receive their assignments.

`prepare` starts one, `complete` ends the join phase when all members have joined or the time is
over, and the leader's SyncGroup ends the rebalance. A group without members becomes Empty.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups import join, members
from kraftlog.groups.records import group_record
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.groups.group import Group
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.member import Member
    from kraftlog.types import Now


def prepare_or_complete(shard: Shard, group: Group, now: Now) -> None:
    """Start a rebalance after a change of the members, unless one is in its join phase."""
    if group.can_rebalance:
        prepare(shard, group, now)
    else:
        maybe_complete(shard, group, now)


def members_left(shard: Shard, group: Group, now: Now) -> None:
    """Rebalance after members have left."""
    if group.state in {GroupState.STABLE, GroupState.COMPLETING}:
        prepare(shard, group, now)
    else:
        maybe_complete(shard, group, now)


def prepare(shard: Shard, group: Group, now: Now) -> None:
    """Start a rebalance; pending SyncGroup requests get REBALANCE_IN_PROGRESS."""
    if group.state == GroupState.COMPLETING:
        members.fail_pending_syncs(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    group.pending_syncs.clear()
    shard.timers.cancel(group.sync_timer)
    is_first = group.state == GroupState.EMPTY
    group.enter(GroupState.PREPARING, now)
    if is_first:
        # Members that start together should form one generation.
        delay_ms = shard.config.initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.member_added = False
        shard.timers.set(group.join_timer, now.monotonic_ms + delay_ms)
    elif group.all_joined:
        complete(shard, group, now)
    else:
        shard.timers.set(group.join_timer, now.monotonic_ms + group.rebalance_timeout_ms)


def maybe_complete(shard: Shard, group: Group, now: Now) -> None:
    """Complete the join phase if all have joined; the initial delay has its own timer."""
    if (
        group.state == GroupState.PREPARING
        and group.initial_remaining_ms is None
        and group.all_joined
    ):
        complete(shard, group, now)


def join_phase_timed_out(shard: Shard, group: Group, now: Now) -> None:
    remaining_ms = group.initial_remaining_ms
    if remaining_ms is not None and group.member_added and remaining_ms:
        # A member joined during the delay, so more may: wait again, within the rebalance timeout.
        delay_ms = min(shard.config.initial_rebalance_delay_ms, remaining_ms)
        group.member_added = False
        group.initial_remaining_ms = remaining_ms - delay_ms
        shard.timers.set(group.join_timer, now.monotonic_ms + delay_ms)
    else:
        complete(shard, group, now)


def complete(shard: Shard, group: Group, now: Now) -> None:
    """End the join phase; missing members are removed, except static ones."""
    shard.timers.cancel(group.join_timer)
    group.initial_remaining_ms = None
    for member in list(group.members.values()):
        if member.joining is None and member.instance_id is None:
            shard.remove_member(group, member.member_id)
    if group.members and not group.elect_leader():
        # Only static members, and none has joined: wait until they join or their sessions end.
        shard.timers.set(group.join_timer, now.monotonic_ms + group.rebalance_timeout_ms)
        return
    group.next_generation(now)
    if group.members:
        join.notify_generation(shard, group, now)
        shard.timers.set(group.sync_timer, now.monotonic_ms + group.rebalance_timeout_ms)
    else:
        # If this write fails, a later coordinator loads the previous generation, and removes its
        # members when their sessions time out.
        shard.writes.submit([group_record(group, {})], now)


def sync_timed_out(shard: Shard, group: Group, now: Now) -> None:
    """Remove members that have joined but not synced, and rebalance."""
    for member_id in list(group.pending_syncs):
        shard.remove_member(group, member_id)
    prepare(shard, group, now)


def session_timed_out(shard: Shard, group: Group, member: Member, now: Now) -> None:
    """Remove a member whose session has timed out, unless a pending request keeps it alive."""
    if not member.has_pending_request:
        remove_and_rebalance(shard, group, member.member_id, now)


def pending_join_timed_out(shard: Shard, group: Group, member_id: str, now: Now) -> None:
    """Remove an id whose member has not joined in time."""
    shard.remove_member(group, member_id)
    if group.state == GroupState.PREPARING and group.all_joined:
        complete(shard, group, now)


def remove_and_rebalance(shard: Shard, group: Group, member_id: str, now: Now) -> None:
    """Remove a member and rebalance."""
    shard.remove_member(group, member_id)
    if group.state in {GroupState.STABLE, GroupState.COMPLETING}:
        prepare(shard, group, now)
    elif group.state == GroupState.PREPARING and group.all_joined:
        complete(shard, group, now)

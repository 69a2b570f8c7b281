"""The timers of members: their sessions, and their time to revoke partitions."""

from __future__ import annotations

from kraftlog.groups.consumer import fencing
from kraftlog.groups.consumer.group import MemberTimers
from kraftlog.groups.consumer.states import MemberState
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.types import Now


def restart(shard: Shard, group: ConsumerGroup, member_id: str, now: Now) -> None:
    """Begin the session of a member again."""
    timers = group.timers.get(member_id)
    if timers is None:
        timers = group.timers[member_id] = _new_timers(shard, group.group_id, member_id)
    classic = group.members[member_id].classic
    timeout_ms = (
        shard.consumer_settings(group.group_id).session_timeout_ms
        if classic is None
        else classic.session_timeout_ms
    )
    shard.timers.set(timers.session, now.monotonic_ms + timeout_ms)


def await_join(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """Give a classic member time to join again, unless it has been told before."""
    timer = group.timers[member.member_id].join
    if timer.at is None:
        shard.timers.set(timer, now.monotonic_ms + member.rebalance_timeout_ms)


def await_sync(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """Give a classic member that has joined time to fetch its assignment."""
    timers = group.timers[member.member_id]
    shard.timers.cancel(timers.join)
    shard.timers.set(timers.sync, now.monotonic_ms + member.rebalance_timeout_ms)


def synced(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    shard.timers.cancel(group.timers[member.member_id].sync)
    restart(shard, group, member.member_id, now)


def set_rebalance_timeout(
    shard: Shard, group: ConsumerGroup, member: ConsumerMember, now: Now
) -> None:
    """Give a member that has to revoke partitions time for that; others need none."""
    timers = group.timers[member.member_id]
    shard.timers.cancel(timers.rebalance)
    if member.state == MemberState.UNREVOKED_PARTITIONS and member.classic is None:
        group_id, member_id, epoch = group.group_id, member.member_id, member.epoch
        timers.rebalance = Timer(
            lambda later: fencing.fence_at_epoch(shard, group_id, member_id, epoch, later)
        )
        shard.timers.set(timers.rebalance, now.monotonic_ms + member.rebalance_timeout_ms)


def restart_all(shard: Shard, group: ConsumerGroup, now: Now) -> None:
    """Begin the sessions of all members that have none, after a group was loaded."""
    for member in group.members.values():
        if member.member_id not in group.timers:
            restart(shard, group, member.member_id, now)
            set_rebalance_timeout(shard, group, member, now)


def cancel(shard: Shard, group: ConsumerGroup, member_id: str) -> None:
    timers = group.timers.pop(member_id, None)
    if timers is not None:
        for timer in (timers.session, timers.rebalance, timers.join, timers.sync):
            shard.timers.cancel(timer)


def cancel_all(shard: Shard, group: ConsumerGroup) -> None:
    for member_id in list(group.timers):
        cancel(shard, group, member_id)


def cancel_removed(shard: Shard, group: ConsumerGroup) -> None:
    """Cancel the timers of members that are not in the group any more."""
    for member_id in [each for each in group.timers if each not in group.members]:
        cancel(shard, group, member_id)


def _new_timers(shard: Shard, group_id: str, member_id: str) -> MemberTimers:
    return MemberTimers(lambda later: fencing.fence_member(shard, group_id, member_id, later))

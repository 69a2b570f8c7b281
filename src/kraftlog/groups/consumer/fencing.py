"""Removing members: they leave, lose their session, or do not revoke in time."""

from __future__ import annotations

from kraftlog.groups.consumer import downgrade, records, sessions
from kraftlog.groups.consumer.writes import write
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.types import Now


def fence(
    shard: Shard,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    now: Now,
    pending: object = None,
    response: object = None,
    error_response: Callable[[int], Any] | None = None,
) -> None:
    """Remove members; what they had is free, and the others get it with the next epoch."""
    if downgrade.is_possible(shard, group, members):
        shard.become_classic_group(
            group, members, None, [], True, now, pending, response, error_response
        )
        return
    group_id = group.group_id
    new_records = [
        record
        for member in members
        for record in records.removed_member(group_id, member.member_id)
    ]
    left = group.regex_counts.copy()
    for member in members:
        if member.topic_regex:
            left[member.topic_regex] -= 1
            if not left[member.topic_regex]:
                new_records.append(records.removed_regex(group_id, member.topic_regex))
    metadata_hash = shard.topics.hash_of(group.topics_after(members))
    epoch = group.epoch + 1
    new_records.append(records.group_epoch(group_id, epoch, metadata_hash))
    if len(members) == len(group.members):
        # The empty group has its target; the next member need not wait for the interval.
        new_records.append(records.target_epoch(group_id, epoch, 0))
    write(shard, group, new_records, pending, response, error_response, now)
    for member in members:
        sessions.cancel(shard, group, member.member_id)


def fence_member(shard: Shard, group_id: str, member_id: str, now: Now) -> None:
    """Remove a member whose time is over, if it is still there."""
    group = shard.consumer_groups.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is not None and member is not None:
        fence(shard, group, [member], now)


def fence_at_epoch(shard: Shard, group_id: str, member_id: str, epoch: int, now: Now) -> None:
    """Remove a member that has not left an epoch, as it has not revoked what it should."""
    group = shard.consumer_groups.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if member is not None and member.epoch == epoch:
        fence_member(shard, group_id, member_id, now)

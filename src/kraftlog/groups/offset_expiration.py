"""Offset expiration: deletes unused offsets, and an empty group with its last offset.

The retention time of an offset counts from when its group became empty; if the group has members,
or never had any, it counts from the commit. A commit may set its own expiration time. Offsets of
subscribed topics are kept. A check covers some groups, and the next check continues with the
others.
"""

from __future__ import annotations

from kraftlog.groups.admin import begin_deletion, undo_deletion
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.group import CONSUMER
from kraftlog.groups.records import offset_tombstone
from kraftlog.groups.states import GroupState
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.groups.group import Group
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.records import GroupRecord
    from kraftlog.groups.stored_state import CommittedOffset
    from kraftlog.types import Now

    #: Returns the wall time from which the retention time of an offset counts.
    RetentionStart = Callable[[CommittedOffset], int]

#: Number of offsets checked at once; a group is checked as a whole.
SLICE = 1_000
#: Pause before the next check, while groups are left to check.
PAUSE_MS = 1


class OffsetExpiration:
    """Checks the groups of a shard, some at a time, once per check interval."""

    __slots__ = ("_shard", "_timer", "_to_check")

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._timer = Timer(self._check)
        self._to_check: list[str] = []

    def start(self, now: Now) -> None:
        self._to_check = []
        self._schedule(now, self._shard.config.offsets_retention_check_interval_ms)

    def _schedule(self, now: Now, in_ms: int) -> None:
        self._shard.timers.set(self._timer, now.monotonic_ms + in_ms)

    def _check(self, now: Now) -> None:
        shard = self._shard
        if not self._to_check:
            self._to_check = [*reversed(shard.groups), *reversed(shard.consumer_groups)]
        checked = 0
        while self._to_check and checked < SLICE:
            group_id = self._to_check.pop()
            group = shard.consumer_groups.get(group_id) or shard.groups.get(group_id)
            if group is not None and group.state != GroupState.DEAD:
                checked += 1 + self._check_group(group, now)
        interval_ms = shard.config.offsets_retention_check_interval_ms
        self._schedule(now, PAUSE_MS if self._to_check else interval_ms)

    def _check_group(self, group: Group | ConsumerGroup, now: Now) -> int:
        """Delete expired offsets, or the group if none remain; return the number checked."""
        shard = self._shard
        group_id = group.group_id
        topics = shard.durable.offsets.by_group.get(group_id, {})
        expired = expired_offsets(shard, group, now)
        count = sum([len(partitions) for partitions in topics.values()])
        deletes_group = (
            len(expired) == count
            and group.state == GroupState.EMPTY
            and group_id not in shard.writes.offsets
            and group_id not in shard.durable.open_producers
        )
        records: list[GroupRecord]
        if deletes_group:
            records = begin_deletion(shard, group, now)
        else:
            records = [offset_tombstone(group_id, *key) for key in expired]

        def undo(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
            if deletes_group:
                undo_deletion(shard, group, later)

        is_consumer_group = deletes_group and isinstance(group, ConsumerGroup)
        group_ids = (group_id,) if is_consumer_group else ()
        shard.writes.submit_parts(records, now, undo, group_ids=group_ids)
        return count


def expired_offsets(shard: Shard, group: Group | ConsumerGroup, now: Now) -> list[tuple[str, int]]:
    """Partitions with expired offsets."""
    retention_start = _retention_start(group)
    if retention_start is None:
        return []
    group_id = group.group_id
    pending = shard.writes.offsets.get(group_id, {})
    cutoff_ms = now.wall_ms - shard.config.offsets_retention_ms
    return [
        (topic, index)
        for topic, partitions in shard.durable.offsets.by_group.get(group_id, {}).items()
        if not group.subscribes_to(topic)
        for index, committed in partitions.items()
        if _is_expired(committed, retention_start, cutoff_ms, now.wall_ms)
        and (topic, index) not in pending
        and not shard.durable.is_unstable(group_id, topic, index)
    ]


def _is_expired(
    committed: CommittedOffset, retention_start: RetentionStart, cutoff_ms: int, wall_ms: int
) -> bool:
    if committed.expire_timestamp != -1:
        return wall_ms >= committed.expire_timestamp
    return retention_start(committed) <= cutoff_ms


def _retention_start(group: Group | ConsumerGroup) -> RetentionStart | None:
    """A function from an offset to the start of its retention; None if nothing expires now."""
    if isinstance(group, ConsumerGroup):
        return _commit_time  # its subscriptions are always known
    if group.protocol_type is None:
        # The group of a consumer without membership, which only commits and fetches offsets.
        return _commit_time
    if group.state == GroupState.EMPTY:
        empty_since = group.state_since
        # Old records do not have the time when the group became empty.
        return _commit_time if empty_since == -1 else lambda _: empty_since
    # Subscriptions are known only of consumers, and not during a rebalance.
    is_known = group.protocol_type == CONSUMER and group.state == GroupState.STABLE
    return _commit_time if is_known else None


def _commit_time(committed: CommittedOffset) -> int:
    return committed.commit_timestamp

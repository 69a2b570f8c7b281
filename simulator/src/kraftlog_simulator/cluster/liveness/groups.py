"""V24: no member of a consumer group waits for what has happened already, nor without a deadline.

After each turn of a broker: the coordinator of each partition of the offsets topic is loaded once
all of the log that it needs is committed and read. A JoinGroup waits only until all members have
joined, a SyncGroup only until the leader's assignment is committed. What may never happen has a
timer, and no timer is overdue.
"""

from __future__ import annotations

from kraftlog.groups.states import GroupState
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant

if TYPE_CHECKING:
    from kraftlog.groups.group import Group
    from kraftlog.groups.shard import GroupShard
    from kraftlog.groups.timers import Timer
    from kraftlog.node.coordinators.group_coordinators import ShardContext
    from kraftlog_simulator.cluster.node import ClusterNode


class CoordinatorIsLoaded(ClusterInvariant):
    """A leader of a partition of the offsets topic has its groups as soon as it can."""

    name = "no coordinator waits for further traffic"

    def on_settled_turn(self, node: ClusterNode) -> None:
        coordinators = node.node.group_coordinators
        if not self.world.setting.members or coordinators is None:
            return
        for partition in node.node.replica_manager.partitions.values():
            if partition.topic == TOPIC and partition.online:
                context = coordinators.context_of(partition.index)
                what = f"{node}: the coordinator of {TOPIC}-{partition.index}"
                if context is None:
                    self.fail(f"{what} does not load, although the broker leads the partition")
                if not context.is_offline:
                    self._check(node, context, what)

    def _check(self, node: ClusterNode, context: ShardContext, what: str) -> None:
        partition = context.partition
        if context.shard.is_loaded:
            waiting = len(context.shard.writes)
            batches = len(partition.acks) + len(partition.awaiting_isr)
            if waiting > batches:
                self.fail(f"{what}: {waiting} writes wait, but only {batches} of its batches do")
        elif context.loaded_to < context.load_end:
            # A coordinator that is loaded again waits for its earlier batches first.
            if not (partition.awaiting_isr or node.runner.is_reading(partition.log)):
                self.fail(f"{what} is loaded to {context.loaded_to}, and reads no further")
        elif partition.high_watermark >= context.load_end:
            self.fail(
                f"{what} is not loaded, although all before {context.load_end} is read and "
                f"committed"
            )


class GroupIsAnswered(ClusterInvariant):
    """A rebalance ends with the request, the write or the timeout that it waits for."""

    name = "no group member waits for further traffic"

    def on_settled_turn(self, node: ClusterNode) -> None:
        coordinators = node.node.group_coordinators
        if not self.world.setting.members or coordinators is None:
            return
        now_ms = node.node.now.monotonic_ms
        for shard in coordinators.shards():
            for group in shard.groups.values():
                what = f"{node}: group {group.group_id}, {group.state}"
                self._check_joins(what, shard, group, now_ms)
                self._check_syncs(what, shard, group, now_ms)
                self._check_sessions(what, group, now_ms)

    def _check_joins(self, what: str, shard: GroupShard, group: Group, now_ms: int) -> None:
        joined = [member for member in group.members.values() if member.joining is not None]
        if group.state != GroupState.PREPARING:
            # A static member waits for the write of its new id.
            if joined and not (group.state == GroupState.STABLE and len(shard.writes)):
                self.fail(f"{what}: a JoinGroup of {joined[0].member_id} waits")
            return
        if joined:
            self.world.saw("join waits")
        is_initial = group.initial_remaining_ms is not None
        if not is_initial and len(joined) == len(group.members) and not group.pending_joins:
            self.fail(f"{what}: JoinGroup requests wait, although all members have joined")
        self._check_timer(f"{what}: the rebalance", group.join_timer, now_ms)
        for member_id, timer in group.pending_joins.items():
            self._check_timer(f"{what}: the id {member_id}", timer, now_ms)

    def _check_syncs(self, what: str, shard: GroupShard, group: Group, now_ms: int) -> None:
        syncing = [member for member in group.members.values() if member.syncing is not None]
        if group.state != GroupState.COMPLETING:
            if syncing:
                self.fail(f"{what}: a SyncGroup of {syncing[0].member_id} waits")
            return
        if syncing:
            self.world.saw("sync waits")
        if group.pending_syncs:
            self._check_timer(f"{what}: the assignment", group.sync_timer, now_ms)
        if group.leader not in group.pending_syncs and not len(shard.writes):
            self.fail(f"{what}: SyncGroup requests wait, although the assignment is written")

    def _check_sessions(self, what: str, group: Group, now_ms: int) -> None:
        for member in group.members.values():
            if member.joining is None and member.syncing is None:
                self._check_timer(
                    f"{what}: the session of {member.member_id}", member.session, now_ms
                )

    def _check_timer(self, what: str, timer: Timer | None, now_ms: int) -> None:
        if timer is None or timer.at is None:
            self.fail(f"{what} has no deadline")
        if timer.at < now_ms:
            self.fail(f"{what} ended at {timer.at}, and it is {now_ms}")

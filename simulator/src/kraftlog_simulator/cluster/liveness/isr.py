"""V24, V8: a leader that knows of a change of the ISR has proposed it.

A follower that may join is in the proposed ISR after the same turn: when it has fetched, or the
leader has replayed what it waited for. A member that lags for too long leaves by the next check,
after half of replica.lag.time.max.ms at the latest. A proposal ends with its outcome: it is sent
until the controller has answered, and it then waits only for a record that was committed.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftlog.replication.followers import UNKNOWN
from kraftlog.replication.in_sync_replicas import UNWRITABLE_LAG_MS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.cluster.invariants import ClusterInvariant
from kraftlog_simulator.cluster.liveness.data_requests import leads

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.replication.followers import Follower
    from kraftlog.replication.partition import Partition
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld


class Proposing(NamedTuple):
    """What a leader proposes for a partition, since when."""

    incarnation: int
    partition_epoch: int
    proposed: Any
    since_ms: int
    #: Whether the controller has refused the proposal before.
    is_refused: bool


class IsrIsProposed(ClusterInvariant):
    """The leader proposes what it knows; see the module."""

    name = "no change of an ISR waits for further traffic"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        #: By node and partition, where a follower is outside the ISR or lags.
        self._proposing: dict[tuple[int, PartitionKey], Proposing] = {}
        #: By node: its process, and since when a request is overdue.
        self._overdue: dict[int, tuple[int, int]] = {}
        #: Since when followers can't be written: by node and its process, partition and follower.
        self._unwritable: dict[tuple[int, int, PartitionKey, int], int] = {}

    def on_settled_turn(self, node: ClusterNode) -> None:
        for key, partition in node.node.replica_manager.partitions.items():
            followers = partition.followers
            if followers is None or not partition.online:
                continue
            if (
                partition.proposed is None
                and len(partition.isr) == len(partition.replicas)
                and followers.all_at(partition.written_end)
            ):
                continue
            image = node.node.image.partitions.get(key)
            if image is not None and leads(node, partition, image):
                self._check(node, key, partition, image)
        self._check_request(node)

    def _check(
        self, node: ClusterNode, key: PartitionKey, partition: Partition, image: PartitionImage
    ) -> None:
        state = self._proposing[node.id, key] = self._follow(node, key, partition)
        what = f"{node}: {partition.topic}-{partition.index}, ISR {image.isr}"
        if partition.proposed is not None:
            self._check_outcome(node, key, partition, what)
            return
        assert partition.followers is not None
        for follower in partition.followers.by_broker.values():
            if follower.broker_id in image.isr:
                self._check_member(node, partition, image, follower, state, what)
            else:
                self._check_other(node, key, partition, image, follower, state, what)

    def _follow(self, node: ClusterNode, key: PartitionKey, partition: Partition) -> Proposing:
        before = self._proposing.get((node.id, key))
        process, epoch, proposed = node.incarnation, partition.partition_epoch, partition.proposed
        is_same = before is not None and before.incarnation == process
        if before is not None and is_same and before.partition_epoch == epoch:
            if before.proposed is proposed:
                return before
            is_refused = proposed is None
        else:
            is_refused = False
        return Proposing(process, epoch, proposed, node.node.now.monotonic_ms, is_refused)

    # Proposals -----------------------------------------------------------------------------------

    def _check_outcome(
        self, node: ClusterNode, key: PartitionKey, partition: Partition, what: str
    ) -> None:
        proposed, newest = partition.proposed, self.world.image.partitions.get(key)
        assert proposed is not None
        self.world.saw("ISR proposed")
        changes = node.node.replica_manager.in_sync_replicas.changes
        if (
            not changes.awaits_outcome(key)
            and newest is not None
            and newest.first_leader_epoch == partition.first_leader_epoch
            and newest.partition_epoch <= proposed.partition_epoch
            and self.world.is_image_newest
        ):
            self.fail(f"{what}: its proposal {proposed.isr} was answered, and no record ends it")

    def _check_request(self, node: ClusterNode) -> None:
        """A request with proposals is in flight, or will be sent."""
        changes = node.node.replica_manager.in_sync_replicas.changes
        due_ms, is_in_flight = changes.deadline(), changes.is_in_flight
        if due_ms is None and not is_in_flight:
            return
        now_ms = node.node.now.monotonic_ms
        if due_ms is None or due_ms >= now_ms:
            self._overdue.pop(node.id, None)
            active = node.node.active_controller
            if (
                is_in_flight
                and not (active is not None and active.is_active)
                and not node.node.controller_channel.awaits_response(ApiKey.ALTER_PARTITION)
            ):
                self.fail(f"{node} waits for the response to an AlterPartition that it has not")
            return
        process, since_ms = self._overdue.setdefault(node.id, (node.incarnation, now_ms))
        if process != node.incarnation:
            self._overdue[node.id] = node.incarnation, now_ms
        elif now_ms > since_ms:
            self.fail(f"{node} has not sent AlterPartition, which was due at {due_ms}")

    # Followers -----------------------------------------------------------------------------------

    def _check_member(
        self,
        node: ClusterNode,
        partition: Partition,
        image: PartitionImage,
        follower: Follower,
        state: Proposing,
        what: str,
    ) -> None:
        """A member that has lagged for too long is removed by the next check."""
        if follower.end == partition.written_end:
            return
        lag_ms, interval_ms = self.world.setting.lag_ms, self.world.setting.lag_ms // 2
        lagging_ms = follower.caught_up_ms + lag_ms
        unwritable_since_ms = self._unwritable_since_ms(node, image, follower)
        if unwritable_since_ms is not None:
            noticed_ms = max(follower.caught_up_ms, unwritable_since_ms)
            lagging_ms = min(lagging_ms, noticed_ms + UNWRITABLE_LAG_MS)
        if node.node.now.monotonic_ms > max(lagging_ms, state.since_ms) + interval_ms:
            self.fail(
                f"{what}: {follower.broker_id} lags at {follower.end} of {partition.written_end} "
                f"since {follower.caught_up_ms}, and no ISR without it is proposed"
            )

    def _unwritable_since_ms(
        self, node: ClusterNode, image: PartitionImage, follower: Follower
    ) -> int | None:
        """Since when the leader knows that the follower can't be written; None: it can be."""
        process = node.id, node.incarnation, image.key, follower.broker_id
        broker = node.node.image.brokers.get(follower.broker_id)
        if broker is None or broker.writable(image.directory(follower.broker_id)):
            self._unwritable.pop(process, None)
            return None
        return self._unwritable.setdefault(process, node.node.now.monotonic_ms)

    def _check_other(
        self,
        node: ClusterNode,
        key: PartitionKey,
        partition: Partition,
        image: PartitionImage,
        follower: Follower,
        state: Proposing,
        what: str,
    ) -> None:
        """A follower that may join is proposed at once, unless the controller refuses it."""
        followers = partition.followers
        assert followers is not None
        if follower.end < max(partition.high_watermark, followers.epoch_start):
            return
        if not _is_eligible(node.node.image, image, follower) or self._refuses(
            key, image, follower
        ):
            return
        if state.is_refused and follower.fetched_ms <= state.since_ms:
            return  # it is proposed again with its next fetch
        self.fail(
            f"{what}: {follower.broker_id} has fetched up to {follower.end}, the high watermark is "
            f"{partition.high_watermark}, and no ISR with it is proposed"
        )

    def _refuses(self, key: PartitionKey, image: PartitionImage, follower: Follower) -> bool:
        """Whether an active controller has decided more than the leader has replayed."""
        for replica in self.world.replicas.values():
            active = replica.node.active_controller if replica.core is not None else None
            if active is not None and active.is_active:
                state = active.controller.state
                partition = state.partitions.get(key)
                if partition is None or partition.partition_epoch != image.partition_epoch:
                    return True
                if not _is_eligible(state, partition, follower):
                    return True
        return False


def _is_eligible(image: Image | Any, partition: PartitionImage, follower: Follower) -> bool:
    """Whether the controller accepts a follower as a member of the ISR."""
    broker = image.brokers.get(follower.broker_id)
    return (
        broker is not None
        and broker.active
        and follower.broker_epoch in (UNKNOWN, broker.epoch)
        and broker.online(partition.directory(broker.id))
    )

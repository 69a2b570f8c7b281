"""A node of the cluster: broker, controller or both; the invariants see its partitions."""

from __future__ import annotations

from typing import NamedTuple

from kraftlog.errors import StorageError
from kraftlog.simulator.cluster.replica_logs import ReplicaLog
from kraftlog.simulator.files import PowerLost
from kraftlog.simulator.nodes.connections import BROKER_PORT
from kraftlog.simulator.nodes.replica import NodeReplica
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.raft.messages import ElectionState
    from kraftlog.replication.partition import Partition
    from kraftlog.simulator.cluster.world import ClusterWorld
    from kraftlog.simulator.rng import Rng
    from kraftlog.storage.log import Log


#: How long a node is down after a clean shutdown, unless the end of a fault restarts it earlier.
RESTART_MS = 300


class ReplicaSnapshot(NamedTuple):
    """What the invariants see of a partition's replica at the end of a turn."""

    leader_epoch: int
    leads: bool
    online: bool
    high_watermark: int
    written_end: int
    start: int


class ClusterNode(NodeReplica):
    """A node; `logs` has the logs of its replicas, read from its files, whether it runs or not."""

    world: ClusterWorld

    def __init__(self, world: ClusterWorld, replica_id: int) -> None:
        self.logs: dict[PartitionKey, ReplicaLog] = {}
        #: Whether its machine lost power; the next start decides which unsynced data survives.
        self.lost_power = False
        super().__init__(world, replica_id)

    def _forget_process(self) -> None:
        super()._forget_process()
        #: Whether the broker has ever been ready; from then on it accepts clients.
        self.was_ready = False
        self.is_leaving = False
        self.seen: dict[PartitionKey, ReplicaSnapshot] = {}
        self._partitions: dict[PartitionKey, Partition] = {}
        #: The delayed operations that wait, or waited until lately.
        self.delayed: list[Any] = []
        for log in self.logs.values():
            log.log = None  # read it again: a turn that a crash ended may have appended to it

    @property
    def is_broker(self) -> bool:
        return self.id in self.world.setting.brokers

    @property
    def is_registered(self) -> bool:
        """Whether the cluster has the registration of this process, not only of an earlier one."""
        broker = self.world.image.brokers.get(self.id)
        lifecycle = self.node.broker_lifecycle if self._node is not None else None
        return (
            broker is not None
            and lifecycle is not None
            and broker.incarnation_id == lifecycle.incarnation
        )

    @property
    def is_sound(self) -> bool:
        """Whether it is registered, and its log directory is online."""
        return self.is_registered and self.runner.directory.disk.failure is None

    def listens_on(self, port: int) -> bool:
        return self.was_ready if port == BROKER_PORT else super().listens_on(port)

    def lose_unsynced(self, rng: Rng) -> int:  # noqa: ARG002 - see `start`
        for log in self.logs.values():
            log.forget()
        self.lost_power = True
        return 0

    def lose_disk(self, kept: int, election: ElectionState | None = None) -> None:
        super().lose_disk(kept, election)
        self.logs.clear()
        self.lost_power = False

    def start(self) -> None:
        if self.lost_power:
            self.lost_power = False
            if self.world.loses_data(self):
                super().lose_unsynced(self.world.power_rng)
            else:
                self.files.write_back()
        super().start()

    # Leaving -------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        self.is_leaving = True
        super().shut_down()

    def close(self, incarnation: int) -> None:
        """The controlled shutdown is over: the process ends cleanly."""
        if incarnation != self.incarnation or self._node is None:
            return
        if self.io_threads.is_busy:
            self.world.schedule(self.world.time + 1, self.close, incarnation)
            return
        try:
            self.runner.close()
        except PowerLost:
            self.crash()
            return
        except (StorageError, OSError) as error:
            self.stopped(error)
            return
        world = self.world
        world.saw("clean shutdown")
        self.disk.refresh_durable()
        world.end_now(self)
        world.schedule(world.time + RESTART_MS, world.start, self)

    # Turns ---------------------------------------------------------------------------------------

    def turn(self, what: str, act: Any, *arguments: Any) -> None:
        super().turn(what, act, *arguments)
        if self.is_leaving and self._node is not None and self.node.has_left:
            self.is_leaving = False
            self.world.schedule(self.world.time, self.close, self.incarnation)

    def _report_turn(self) -> None:
        super()._report_turn()
        self.world.image_applied(self)  # first: it may be the cause of what its replicas did
        node, seen = self.node, self.seen
        if not self.was_ready and self.is_broker and node.is_ready:
            self.was_ready = True
            self.world.progress += 1
        partitions = node.replica_manager.partitions
        removed = [
            key
            for key, before in self._partitions.items()
            if (now := partitions.get(key)) is not before
            and (now is None or now.first_leader_epoch != before.first_leader_epoch)
        ]
        if removed:
            self._report_removed(removed)
        for key, partition in partitions.items():
            state = ReplicaSnapshot(
                partition.leader_epoch,
                partition.leads,
                partition.online,
                partition.high_watermark,
                partition.written_end,
                partition.start,
            )
            if seen.get(key) != state:
                self._report_partition(key, partition, state)
        self.world.node_turned(self)

    def delays(self, operation: Any) -> None:
        self.delayed.append(operation)

    def _report_removed(self, keys: Iterable[PartitionKey]) -> None:
        """A leader may have raised its high watermark in the turn in which it is removed.

        Its appends of that turn are not read any more: its log is deleted.
        """
        for key in keys:
            removed = self._partitions.pop(key)
            if key in self.logs:
                self.logs[key].log = None
            self.world.replica_changed(self, key, removed, self.seen.pop(key))

    def _report_partition(
        self, key: PartitionKey, partition: Partition, state: ReplicaSnapshot
    ) -> None:
        before = self.seen.get(key)
        self.seen[key] = state
        self._partitions[key] = partition
        log = self.runner.directory.logs.get(partition.log)
        if log is not None and log.topic_id == partition.topic_id:
            self._read_log(key, partition, log)
        self.world.replica_changed(self, key, partition, before)

    def _read_log(self, key: PartitionKey, partition: Partition, log: Log) -> None:
        first_epoch = partition.first_leader_epoch
        view = self.logs.get(key)
        if view is None or view.first_epoch != first_epoch:
            if first_epoch and not partition.is_open:
                return  # it may be the log of the partition that was removed (V11)
            view = self.logs[key] = ReplicaLog(first_epoch)
        if view.refresh(self.files, log):
            self.world.truncated(self, key)

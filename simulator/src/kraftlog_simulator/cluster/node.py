"""A node of the cluster: broker, controller or both; the invariants see its partitions."""

from __future__ import annotations

from typing import NamedTuple

from kraftlog.controller.state import MIN_ISR
from kraftlog.effects import DeleteLog, RequestReport
from kraftlog.errors import StorageError
from kraftlog.metadata.changes import PartitionChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.format import is_formatted
from kraftlog.storage.meta_properties import load
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.replica_logs import ReplicaLog
from kraftlog_simulator.cluster.settings_administrator import TOPIC
from kraftlog_simulator.files import PowerLost
from kraftlog_simulator.nodes.connections import BROKER_PORT
from kraftlog_simulator.nodes.replica import NodeReplica

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.raft.messages import ElectionState
    from kraftlog.replication.partition import Partition
    from kraftlog.storage.log import Log
    from kraftlog.types import Now
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng


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


class ReplayedPartitions(MetadataPublisher):
    """Collects each replayed change of a partition; a turn may replay several of one partition."""

    name = "simulator"

    def __init__(self) -> None:
        self._changes: list[tuple[PartitionImage, PartitionImage]] = []

    def changed(self, change: Change) -> None:
        if type(change) is PartitionChanged and change.before is not None and change.after:
            self._changes.append((change.before, change.after))

    def take(self) -> list[tuple[PartitionImage, PartitionImage]]:
        changes, self._changes = self._changes, []
        return changes


class ClusterNode(NodeReplica):
    """A node; `logs` has the logs of its replicas, read from its files, whether it runs or not."""

    world: ClusterWorld

    def __init__(self, world: ClusterWorld, replica_id: int) -> None:
        self.logs: dict[PartitionKey, ReplicaLog] = {}
        #: Whether a crash ended a turn, in which it may have deleted records.
        self.may_have_deleted = False
        #: Whether its machine lost power; the next start decides which unsynced data survives.
        self.lost_power = False
        super().__init__(world, replica_id)

    def _forget_process(self) -> None:
        super()._forget_process()
        #: Whether the broker has ever been ready; from then on it accepts clients.
        self.was_ready = False
        self.is_leaving = False
        #: The minimum and the ISR of each partition that it leads, as of the last replay.
        self._commitment: dict[PartitionKey, tuple[str | None, tuple[int, ...]]] = {}
        self._seen_applied = 0
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
        """Whether it is registered, and all its log directories are online."""
        return self.is_registered and not self.has_failed_directory

    @property
    def is_settled(self) -> bool:
        """Whether a broker is in the midst of nothing: what it knows is as of one offset (V20)."""
        node = self.node
        return (
            self.is_broker
            and not node.quorum.is_applying
            and not node.sliced.has_work
            and not node.replica_manager.delayed_fetches.has_work
        )

    @property
    def has_failed_directory(self) -> bool:
        """Whether a log directory of the process is offline."""
        directories = self.runner.logs.directories if self._node is not None else ()
        return any(directory.is_offline for directory in directories)

    @property
    def has_failed_log(self) -> bool:
        """Whether a log of the process could not be opened, read or written."""
        if self._node is None:
            return False
        manager = self.node.replica_manager
        partitions = manager.partitions.values()
        return manager.has_opened_logs and not all(each.is_open for each in partitions)

    def crash(self) -> None:
        self.may_have_deleted = True
        super().crash()

    def stopped(self, error: BaseException) -> None:
        self.may_have_deleted = True
        super().stopped(error)

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
            self.world.kept.doubt(self.id)
            if self.world.loses_data(self):
                super().lose_unsynced(self.world.power_rng)
            else:
                self.files.write_back()
                self.files.power_loss()
        super().start()

    def _open(self) -> None:
        super()._open()
        self._replayed = ReplayedPartitions()
        self.node.metadata_loader.publishers.append(self._replayed)

    # Log directories -----------------------------------------------------------------------------

    def _open_more_directories(self) -> tuple[list[LogDirectory], list[str]]:
        """Open them as the server does: one that is empty is formatted, a broken one is lost."""
        opened, lost = [], []
        for path in self.world.directories_of(self)[1:]:
            try:
                if not is_formatted(self.files, path):
                    self._format_one(path)
                directory_id = load(self.files, path).directory_id
                opened.append(LogDirectory(self.files, path, directory_id=directory_id))
            except BlockingIOError:
                raise
            except (StorageError, OSError) as error:
                self._log_line(f"{path}: cannot be opened: {error}")
                lost.append(path)
        return opened, lost

    def _format_one(self, path: str) -> None:
        self._format_directory(path, self.world.new_directory_id())

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

    def _notify(self, report: Any, now: Now) -> None:
        if isinstance(report, RequestReport):
            self.world.late_requests.reported(self.id, report)
        super()._notify(report, now)

    def _report_turn(self) -> None:
        super()._report_turn()
        # First, as they may be the cause of what its replicas did.
        for before, after in self._replayed.take():
            self.world.partition_replayed(before, after)
        self.world.image_applied(self)
        node, seen = self.node, self.seen
        self._note_joined_replay()
        if not self.was_ready and self.is_broker and node.is_ready:
            self.was_ready = True
            self.world.progress += 1
        partitions = node.replica_manager.partitions
        if partitions != self._partitions:
            self._report_removed(partitions)
        for key, partition in partitions.items():
            state = (
                partition.leader_epoch,
                partition.leads,
                partition.online,
                partition.high_watermark,
                partition.written_end,
                partition.start,
            )
            if seen.get(key) != state:
                self._report_partition(key, partition, ReplicaSnapshot(*state))
        self.world.node_turned(self)

    def delays(self, operation: Any) -> None:
        self.delayed.append(operation)

    def before_effects(self, effects: Sequence[Any]) -> None:
        """Read what was appended to a log, and may be acknowledged, before the log is deleted."""
        for effect in effects:
            if type(effect) is DeleteLog:
                view = self.logs.get((effect.topic_id, effect.log[1]))
                log = self.runner.logs.get(effect.log)
                if view is not None and view.log is log is not None:
                    view.refresh(self.files, log)

    def _note_joined_replay(self) -> None:
        """Note whether a leader has replayed changes of the minimum and of its ISR in one turn."""
        node = self.node
        if node.quorum.applied == self._seen_applied:
            return
        self._seen_applied = node.quorum.applied
        before, self._commitment = self._commitment, {}
        for key, partition in node.replica_manager.partitions.items():
            newest = node.image.partitions.get(key)
            if partition.leads and newest is not None:
                minimum = node.image.config(TOPIC, partition.topic).get(MIN_ISR)
                self._commitment[key] = minimum, newest.isr
                old_minimum, old_isr = before.get(key, (minimum, newest.isr))
                if old_minimum != minimum and old_isr != newest.isr:
                    self.world.saw("minimum and ISR changed in one replay")

    def _report_removed(self, partitions: Mapping[PartitionKey, Partition]) -> None:
        """A leader may have raised its high watermark in the turn in which it is removed."""
        removed = [
            key
            for key, before in self._partitions.items()
            if (now := partitions.get(key)) is None
            or now.first_leader_epoch != before.first_leader_epoch
        ]
        for key in removed:
            partition = self._partitions.pop(key)
            if key in self.logs:
                self.logs[key].log = None
            self.world.replica_changed(self, key, partition, self.seen.pop(key))

    def _report_partition(
        self, key: PartitionKey, partition: Partition, state: ReplicaSnapshot
    ) -> None:
        before = self.seen.get(key)
        if before is not None and before.online:  # before its log is read, which it has deleted
            self.world.committed(key, partition.first_leader_epoch).delete_before(partition.start)
        self.seen[key] = state
        self._partitions[key] = partition
        log = self.runner.logs.get(partition.log)
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

"""The simulated world of a cluster: whole nodes, topics, producers and consumers."""

from __future__ import annotations

from kraftlog.config.authorizer import CLASS_NAME, STANDARD_AUTHORIZER
from kraftlog.metadata.image import Image
from kraftlog.replication.read_replica import RACK_AWARE
from kraftlog.types import ANONYMOUS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.checkers.group_history import GroupHistory
from kraftlog_simulator.checkers.partition_history import PartitionHistory
from kraftlog_simulator.cluster.access_administrator import AccessAdministrator
from kraftlog_simulator.cluster.administrator import TopicAdministrator
from kraftlog_simulator.cluster.committed_log import CommittedLog
from kraftlog_simulator.cluster.consumer import Consumer
from kraftlog_simulator.cluster.group_member import SESSION_MS, GroupMember
from kraftlog_simulator.cluster.invariants import (
    CLUSTER_HOOKS,
    ReplicaChange,
    make_cluster_invariants,
)
from kraftlog_simulator.cluster.kept_logs import KeptLogs
from kraftlog_simulator.cluster.late_requests import LateRequests
from kraftlog_simulator.cluster.node import ClusterNode
from kraftlog_simulator.cluster.operator import Operator
from kraftlog_simulator.cluster.partition_administrator import PartitionAdministrator
from kraftlog_simulator.cluster.producer import Producer
from kraftlog_simulator.cluster.record_deleter import RecordDeleter
from kraftlog_simulator.cluster.settings_administrator import SettingsAdministrator
from kraftlog_simulator.cluster.stranger import Stranger
from kraftlog_simulator.faults.survivable import may_forget
from kraftlog_simulator.nodes.connections import BROKER_PORT, CONTROLLER_PORT
from kraftlog_simulator.nodes.equal_logs import MetadataLogsAreEqual
from kraftlog_simulator.nodes.log_view import DIRECTORY
from kraftlog_simulator.nodes.node_invariants import FilesMatchWrites
from kraftlog_simulator.nodes.replica import LISTENER, host_of
from kraftlog_simulator.nodes.world import NodeWorld
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from kraftlog.effects import SendRequest
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.raft.config import RaftConfig
    from kraftlog.replication.partition import Partition
    from kraftlog_simulator.cluster.node import ReplicaSnapshot
    from kraftlog_simulator.cluster.setting import ClusterSetting
    from kraftlog_simulator.nodes.node_process import NodeProcess
    from kraftlog_simulator.nodes.replica import NodeReplica
    from kraftlog_simulator.process import Replica

#: In place of an epoch: the newest of the partitions that had this number (V11).
NEWEST = -1
#: By how much a kill is postponed.
POSTPONED_MS = 50


class ClusterWorld(NodeWorld):
    """The world of a cluster; `image` is the newest that any node has applied."""

    replica_type = ClusterNode
    more_invariants = (FilesMatchWrites, MetadataLogsAreEqual)
    setting: ClusterSetting
    replicas: dict[int, ClusterNode]  # type: ignore[assignment]  # all are nodes of the cluster

    def __init__(
        self, seed: int, setting: ClusterSetting, trace: Callable[[str], None] | None = None
    ) -> None:
        self.image = Image()
        self._newest_applied = 0
        #: By partition and its first leader epoch: the committed log.
        self.committed_logs: dict[PartitionKey, dict[int, CommittedLog]] = {}
        #: The partitions that clients use.
        self.keys: list[PartitionKey] = []
        self.history = PartitionHistory()
        self.groups = GroupHistory()
        self.operations = 0
        self._values = 0
        self._directory_ids = 0
        #: The lowest min.insync.replicas that any topic may have had.
        self.least_min_insync = setting.min_insync
        #: Brokers that lost data, until they are back in the ISR of all their partitions.
        self.lossy: set[int] = set()
        #: By broker: its epoch and the metadata offset in the last heartbeat that it has sent.
        self._reported: dict[int, tuple[int, int]] = {}
        #: Whether the process has already ended, so that its end cannot be postponed.
        self._is_ending = False
        super().__init__(seed, setting, trace)
        self.power_rng = self.rng("power")
        self.producers = [Producer(self, number) for number in range(setting.producers)]
        self.consumers = [Consumer(self, 50 + number) for number in range(setting.consumers)]
        self.members = [GroupMember(self, 70 + number) for number in range(setting.members)]
        self.topics = TopicAdministrator(self, 90)
        self.partitions = PartitionAdministrator(self, 91)
        self.deleter = RecordDeleter(self, 92)
        self.operator = Operator(self, 93)
        self.settings = SettingsAdministrator(self, 94)
        self.access = AccessAdministrator(self, 95)
        #: The only one that is no super user, if there is an authorizer.
        self.stranger = Stranger(self, 96) if setting.authorizer else None
        #: Topics whose replication is throttled, each with the side: at leaders or followers.
        self.throttled: dict[tuple[str, str], None] = {}
        self.kept = KeptLogs(self)
        self.late_requests = LateRequests(self)
        self.cluster_invariants = make_cluster_invariants(self)
        self._cluster_listeners = {
            hook: tuple(
                [
                    getattr(invariant, hook)
                    for invariant in self.cluster_invariants
                    if invariant.implements(hook)
                ]
            )
            for hook in CLUSTER_HOOKS
        }

    #: The directory of the metadata log, on every node.
    metadata_directory = DIRECTORY

    def requested(self, effect: SendRequest) -> None:
        self.late_requests.sent(effect)
        if effect.api_key == ApiKey.BROKER_HEARTBEAT:
            request: Any = effect.request
            self._reported[request.broker_id] = (
                request.broker_epoch,
                request.current_metadata_offset,
            )

    def reported_offset(self, node: ClusterNode) -> int:
        """The last metadata offset that a broker has reported in a heartbeat; -1: none."""
        assert node.node.broker_lifecycle is not None
        epoch, offset = self._reported.get(node.id, (-1, -1))
        if epoch != node.node.broker_lifecycle.epoch:
            offset = -1
        active = node.node.active_controller
        session = active.controller.sessions.get(node.id) if active is not None else None
        if session is not None:
            offset = max(offset, session.metadata_offset)
            self._reported[node.id] = node.node.broker_lifecycle.epoch, offset
        return offset

    # Nodes ---------------------------------------------------------------------------------------

    def is_broker_only(self, replica: Replica) -> bool:
        """Whether it is a broker and no controller."""
        return replica.id >= self.setting.voters

    def raft_of(self, replica: NodeReplica) -> RaftConfig:
        raft = super().raft_of(replica)
        config: RaftConfig = raft.replace(
            awaits_commits=replica.id in self.setting.brokers,
            bootstrap_ids=tuple(range(-2, -2 - self.setting.voters, -1))
            if self.setting.dynamic
            else (),
        )
        return config

    def _properties_of(self, replica: NodeReplica) -> str:
        setting = self.setting
        voters = range(setting.voters)
        if setting.dynamic:
            servers = ",".join([f"{host_of(i)}:{CONTROLLER_PORT}" for i in voters])
            quorum = f"controller.quorum.bootstrap.servers={servers}"
        else:
            addresses = ",".join([f"{i}@{host_of(i)}:{CONTROLLER_PORT}" for i in voters])
            quorum = f"controller.quorum.voters={addresses}"
        roles, listeners, host = [], [], host_of(replica.id)
        if replica.id in setting.brokers:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://{host}:{BROKER_PORT}")
        if replica.id < setting.voters:
            roles.append("controller")
            listeners.append(f"{LISTENER}://{host}:{CONTROLLER_PORT}")
        racks, snapshots = [], []
        if setting.snapshot_bytes:
            size = setting.snapshot_bytes
            snapshots = [f"metadata.log.max.record.bytes.between.snapshots={size}"]
        if setting.racks:
            racks = [f"broker.rack={setting.rack_of(replica.id)}"]
            racks.append(f"replica.selector.class={RACK_AWARE}")
        return "\n".join(
            [
                f"process.roles={','.join(roles)}",
                f"node.id={replica.id}",
                f"listeners={','.join(listeners)}",
                f"controller.listener.names={LISTENER}",
                quorum,
                f"controller.quorum.request.timeout.ms={setting.request_timeout_ms}",
                f"metadata.log.dir={DIRECTORY}",
                f"log.dirs={','.join(self.directories_of(replica))}",
                f"broker.heartbeat.interval.ms={setting.heartbeat_ms}",
                f"broker.session.timeout.ms={setting.session_ms}",
                f"replica.lag.time.max.ms={setting.lag_ms}",
                f"replica.fetch.wait.max.ms={setting.fetch_wait_ms}",
                "replica.fetch.backoff.ms=200",
                f"max.incremental.fetch.session.cache.slots={setting.session_slots}",
                f"leader.imbalance.check.interval.seconds={setting.balance_s}",
                *snapshots,
                *racks,
                *self._group_settings(),
                *self._access_settings(),
            ]
        )

    def directories_of(self, replica: NodeReplica) -> list[str]:
        """The log directories of a broker; the first one also has the metadata log."""
        more = self.setting.log_directories - 1 if replica.id in self.setting.brokers else 0
        return [DIRECTORY, *[f"disk{number}" for number in range(1, 1 + more)]]

    def new_directory_id(self) -> bytes:
        """The id of a newly formatted log directory."""
        self._directory_ids += 1
        return b"\x02" + self._directory_ids.to_bytes(15, "big")

    def _group_settings(self) -> list[str]:
        """Settings for groups, and for the offsets topic, which a broker creates."""
        setting = self.setting
        if not setting.members:
            return []
        return [
            f"offsets.topic.num.partitions={setting.offsets_partitions}",
            f"offsets.topic.replication.factor={setting.replication}",
            f"min.insync.replicas={setting.min_insync}",
            f"group.min.session.timeout.ms={SESSION_MS}",
            *(["log.flush.interval.messages=1"] if setting.flushes else []),
        ]

    def _access_settings(self) -> list[str]:
        if not self.setting.authorizer:
            return []
        return [f"{CLASS_NAME}={STANDARD_AUTHORIZER}", f"super.users={ANONYMOUS}"]

    # What nodes show -----------------------------------------------------------------------------

    def _call_hooks(self, hook: str, *arguments: Any) -> None:
        for listener in self._cluster_listeners[hook]:
            listener(*arguments)

    def committed(self, key: PartitionKey, first_epoch: int = NEWEST) -> CommittedLog:
        """The committed log of the partition that began with this leader epoch (V11)."""
        committed_logs = self.committed_logs.setdefault(key, {})
        if first_epoch == NEWEST:
            first_epoch = self.first_epoch(key)
        log = committed_logs.get(first_epoch)
        if log is None:
            log = committed_logs[first_epoch] = CommittedLog()
        return log

    def first_epoch(self, key: PartitionKey, epoch: int = NEWEST) -> int:
        """The first leader epoch of the partition that had this leader epoch (V11)."""
        first_epochs = self.committed_logs.get(key, ())
        return max(
            [first for first in first_epochs if epoch == NEWEST or first <= epoch], default=0
        )

    def acknowledged_in(self, key: PartitionKey, value: int, offset: int) -> int:
        """The first leader epoch of the partition with this committed value, or of the newest."""
        committed_logs = self.committed_logs.get(key, {})
        for first_epoch in sorted(committed_logs, reverse=True):
            values = committed_logs[first_epoch].values
            if values.get(offset) == value or (offset < 0 and value in values.values()):
                return first_epoch
        return self.first_epoch(key)

    def image_applied(self, node: ClusterNode) -> None:
        """A turn of a node is over: its image may be the newest."""
        quorum = node.node.quorum
        if quorum.applied > self._newest_applied and not quorum.is_applying:
            self._newest_applied, self.image = quorum.applied, node.node.image
            self.progress += 1
            for key, partition in self.image.partitions.items():
                self.committed(key, partition.first_leader_epoch)
            self._call_hooks("on_image", self.image)
            if self.lossy:
                self._forget_recovered()

    def partition_replayed(self, before: PartitionImage, after: PartitionImage) -> None:
        """A node has replayed a change of a partition."""
        self._call_hooks("on_partition", before, after)

    @property
    def is_image_newest(self) -> bool:
        """Whether `image` has all that any node knew to be committed."""
        return self._newest_applied >= self.known_committed_end

    @property
    def is_known_without_acls(self) -> bool:
        """Whether all nodes run, and none knows an ACL."""
        nodes = self.replicas.values()
        return all(node.core is not None and not node.node.image.acls for node in nodes)

    def node_turned(self, node: ClusterNode) -> None:
        self._call_hooks("on_turn", node)
        if node.is_settled:
            self._call_hooks("on_settled_turn", node)

    def replica_changed(
        self,
        node: ClusterNode,
        key: PartitionKey,
        partition: Partition,
        before: ReplicaSnapshot | None,
    ) -> None:
        self.progress += 1
        self._call_hooks("on_replica", ReplicaChange(node, key, partition, before))

    def truncated(self, node: ClusterNode, key: PartitionKey) -> None:
        """Batches that a replica had are gone."""
        self.saw("partition truncated")
        self._call_hooks("on_truncated", node, key)

    # What clients see ----------------------------------------------------------------------------

    def next_value(self) -> int:
        self._values += 1
        return self._values

    def count_response(self, what: str, code: int) -> None:
        self.saw(f"{what} error {code}" if code else f"{what} served")

    def acknowledged(self, producer: Producer, key: PartitionKey, value: int, offset: int) -> None:
        self.history.acknowledged(value, offset, self.acknowledged_in(key, value, offset))
        self._call_hooks("on_acknowledged", producer, key, value, offset)
        self._check_history()

    def refused(self, value: int) -> None:
        self.history.refused(value)
        self._check_history()

    def polled(
        self,
        consumer: Consumer,
        key: PartitionKey,
        position: int,
        records: Sequence[tuple[int, int]],
        following: int,
        epoch: int,
        high_watermark: int,
    ) -> None:
        """A consumer got all records before `following`; `epoch` is that of its last record."""
        first_epoch = self.first_epoch(key, epoch)
        if following > position:
            self.progress += 1
            self.history.polled(consumer.name, key, position, records, following, first_epoch)
        if epoch >= 0 or len(self.committed_logs[key]) == 1:
            self._call_hooks("on_polled", consumer, key, first_epoch, following, high_watermark)
        self._check_history()

    def check_must_restart(
        self, consumer: Consumer, key: PartitionKey, position: int, epoch: int
    ) -> None:
        """A leader does not have the position of a consumer, whose last record is of `epoch`.

        The records were deleted, or the partition was removed and added again.
        """
        if position < self.deleted_before(key):
            self.saw("consumer of deleted records")
            return
        if self.has_lost_records(key):
            self.saw("consumer of lost records")
            return
        if self.first_epoch(key, epoch) == self.first_epoch(key):
            raise Violation("consumer", f"{consumer} lost its position {position} of {key}")
        self.saw("consumer of a removed partition")

    def restarted(self, consumer: Consumer, key: PartitionKey, start: int, epoch: int) -> None:
        """A consumer continues at the start of a log, which a leader named with its epoch."""
        if start > self.deleted_before(key):
            raise Violation(
                "consumer", f"{consumer}: {key} starts at {start}, which no client requested"
            )
        self.history.restarted(consumer.name, key, start, self.first_epoch(key, epoch))

    def deleted_before(self, key: PartitionKey) -> int:
        """The offset below which clients requested deletion, in any partition of this name."""
        topic = self.image.topics.get(key[0])
        return self.deleter.requested.get((topic.name, key[1]), 0) if topic is not None else 0

    def read_up_to(self, key: PartitionKey) -> int:
        """The highest position of any consumer in a partition."""
        return max([consumer.positions.get(key, 0) for consumer in self.consumers])

    def _check_history(self) -> None:
        if self.history.violations:
            raise Violation("client history", self.history.violations[0])

    def has_lost_records(self, key: PartitionKey) -> bool:
        """Whether records of a partition were lost that no replica has kept."""
        return key in self.kept.excused

    @property
    def has_lost_offsets(self) -> bool:
        """Whether committed offsets of the group were lost that no replica has kept."""
        return self.kept.has_lost_offsets

    # Processes and power -------------------------------------------------------------------------

    def kill(self, replica: Replica) -> None:
        if not self._postpone_end(self.kill, replica):
            super().kill(replica)

    def lose_power(self, replica: Replica) -> None:
        if not self._postpone_end(self.lose_power, replica):
            super().lose_power(replica)

    def _postpone_end(self, act: Callable[[Replica], None], replica: Replica) -> bool:
        """Postpone the end of a broker that must keep running; return whether it is postponed.

        Without it no replica would have all records, and a broker that has lost data could be
        elected, as the last known leader.
        """
        if self._is_ending:
            return False
        assert not self.healed, f"a fault strikes {replica} after the end of all faults"
        if not self._must_keep_running(replica):
            return False
        self.schedule(self.time + POSTPONED_MS, self._unless_healed, act, replica)
        return True

    def _must_keep_running(self, replica: Replica) -> bool:
        """Whether a broker that has lost data could be elected if this one ended now.

        It could be if it has not registered since its loss, as all others may restart before it
        does, or if this broker alone has all records of a partition that both have.
        """
        if not self.lossy:
            return False
        return any(
            broker != replica.id and not self.replicas[broker].is_registered
            for broker in self.lossy
        ) or any(
            self.lossy.intersection(partition.replicas)
            and {*partition.isr, *partition.elr} - self.lossy == {replica.id}
            for partition in self.image.partitions.values()
        )

    def _unless_healed(self, act: Callable[[Replica], None], replica: Replica) -> None:
        if not self.healed:
            act(replica)

    def end_now(self, replica: Replica) -> None:
        """End a process without postponing that, as it ends by itself."""
        self._is_ending = True
        self.kill(replica)
        self._is_ending = False

    def crashed(self, replica: NodeReplica) -> None:
        self._is_ending = True
        super().crashed(replica)
        self._is_ending = False

    def stopped(self, replica: NodeReplica, error: BaseException) -> None:
        self._is_ending = True
        super().stopped(replica, error)
        self._is_ending = False

    def plan_file_faults(self, replica: NodeReplica) -> None:
        if self._must_keep_running(replica):
            replica.files.stop_before = replica.files.capacity_bytes = None
            replica.files.faults.clear()
        else:
            super().plan_file_faults(replica)

    def sync_fails(self, replica: NodeProcess) -> bool:
        return not self._must_keep_running(replica) and super().sync_fails(replica)

    def loses_data(self, node: ClusterNode) -> bool:
        """Decide whether a machine that lost power loses unsynced data; otherwise it is written.

        It does if records are flushed before they are acknowledged. Otherwise it does, and is added
        to `lossy`, only if fewer brokers than the minimum ISR lose data, every partition has a
        running member of the ISR or ELR with all records (S5), and no unapplied record may change
        an ISR.
        """
        if self.setting.flushes:
            return True
        if len(self.lossy | {node.id}) >= self.setting.min_insync or self.isr_may_change:
            return False
        safe = {broker for broker in self.setting.brokers if self.replicas[broker].is_sound}
        safe -= self.lossy
        partitions = self.image.partitions.values()
        if not all({*partition.isr, *partition.elr} & safe for partition in partitions):
            return False
        if any(
            node.id in partition.replicas and len(partition.replicas) == 2
            for partition in partitions
        ):
            # If the other replica ended uncleanly next, this one would be the last known leader.
            return False
        self.lossy.add(node.id)
        self.lose_logs(node)
        self.saw("replicas lost unsynced data")
        return True

    @property
    def isr_may_change(self) -> bool:
        """Whether a log has records that no node has applied, which may change an ISR."""
        return any(
            node.disk.batches and node.disk.batches[-1].last_offset >= self._newest_applied
            for node in self.replicas.values()
        )

    def _forget_recovered(self) -> None:
        """A broker that is back in the ISR of all its partitions has all data again."""
        for broker in list(self.lossy):
            partitions = self.image.partitions.values()
            node = self.replicas[broker]
            if node.is_registered and all(
                broker in partition.isr for partition in partitions if broker in partition.replicas
            ):
                self.lossy.discard(broker)
                for key in [key for key in node.logs if key in self.image.partitions]:
                    self._call_hooks("on_truncated", node, key)

    def may_be_wiped(self, node: ClusterNode) -> bool:
        """Whether a stopped node may lose its disk.

        A broker may if it is fenced, so that no record is committed by it alone, no other broker is
        in `lossy`, no unapplied record may change an ISR, and each of its partitions has another
        sound replica. A voter may if the quorum survives the loss; a voter that is a broker needs
        both.
        """
        if node.id < self.setting.voters and not may_forget(self, node, 0):
            return False
        if not node.is_broker:
            return True
        registration = self.image.brokers.get(node.id)
        sound = {broker for broker in self.setting.brokers if self.replicas[broker].is_sound}
        others = sound - self.lossy - {node.id}
        return (
            registration is not None
            and registration.fenced
            and not self.isr_may_change
            and not self.lossy - {node.id}
            and all(
                {*partition.isr, *partition.elr} & others
                for partition in self.image.partitions.values()
                if node.id in partition.replicas
            )
        )

    def wipe(self, node: ClusterNode) -> None:
        """Restart a stopped node with an empty disk."""
        self.lose_logs(node)
        node.lose_disk(0)
        if node.is_broker:
            self.lossy.add(node.id)
        self.start(node)

    def lose_logs(self, node: ClusterNode) -> None:
        """A fault may have taken the logs of all replicas of a node."""
        for key, partition in self.image.partitions.items():
            if node.id in partition.replicas:
                self.kept.lose(node.id, key)

    # For scripts ---------------------------------------------------------------------------------

    def logs_of(self, key: PartitionKey) -> Iterable[tuple[ClusterNode, Any]]:
        """The replicas of a partition that have a log of it, with the logs."""
        for broker in self.image.partitions[key].replicas:
            node = self.replicas[broker]
            log = node.logs.get(key)
            if log is not None and log.first_epoch == self.first_epoch(key):
                yield node, log

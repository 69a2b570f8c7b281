"""The simulated world of a cluster: whole nodes, topics, producers and consumers."""

from __future__ import annotations

from kraftlog.metadata.image import Image
from kraftlog.replication.read_replica import RACK_AWARE
from kraftlog.simulator.checkers.group_history import GroupHistory
from kraftlog.simulator.checkers.partition_history import PartitionHistory
from kraftlog.simulator.cluster.administrator import TopicAdministrator
from kraftlog.simulator.cluster.committed_log import CommittedLog
from kraftlog.simulator.cluster.consumer import Consumer
from kraftlog.simulator.cluster.group_member import SESSION_MS, GroupMember
from kraftlog.simulator.cluster.invariants import (
    CLUSTER_HOOKS,
    ReplicaChange,
    make_cluster_invariants,
)
from kraftlog.simulator.cluster.node import ClusterNode
from kraftlog.simulator.cluster.partition_administrator import PartitionAdministrator
from kraftlog.simulator.cluster.producer import Producer
from kraftlog.simulator.cluster.record_deleter import RecordDeleter
from kraftlog.simulator.faults.survivable import may_forget
from kraftlog.simulator.nodes.connections import BROKER_PORT, CONTROLLER_PORT
from kraftlog.simulator.nodes.node_invariants import FilesMatchModel
from kraftlog.simulator.nodes.replica import LISTENER, host_of
from kraftlog.simulator.nodes.world import NodeWorld
from kraftlog.simulator.violation import Violation
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.raft.config import RaftConfig
    from kraftlog.replication.partition import Partition
    from kraftlog.simulator.cluster.node import ReplicaSnapshot
    from kraftlog.simulator.cluster.setting import ClusterSetting
    from kraftlog.simulator.nodes.node_process import NodeProcess
    from kraftlog.simulator.nodes.replica import NodeReplica
    from kraftlog.simulator.process import Replica

#: For the newest partition of a number.
NEWEST = -1
#: How much later a broker is killed.
POSTPONED_MS = 50


class ClusterWorld(NodeWorld):
    """`image` is the newest that any node has applied."""

    replica_type = ClusterNode
    more_invariants = (FilesMatchModel,)
    setting: ClusterSetting
    replicas: dict[int, ClusterNode]  # type: ignore[assignment]  # all are nodes of the cluster

    def __init__(
        self, seed: int, setting: ClusterSetting, trace: Callable[[str], None] | None = None
    ) -> None:
        self.image = Image()
        self._newest = 0
        #: By partition and its first leader epoch: what is committed.
        self.committed_logs: dict[PartitionKey, dict[int, CommittedLog]] = {}
        #: The partitions that clients use.
        self.keys: list[PartitionKey] = []
        self.history = PartitionHistory()
        self.groups = GroupHistory()
        self.operations = 0
        self._values = 0
        #: Brokers that lost data, until they are back in every ISR.
        self.lossy: set[int] = set()
        #: Whether a process has ended by itself, so that nothing can be postponed.
        self._is_ending = False
        super().__init__(seed, setting, trace)
        self.power_rng = self.rng("power")
        self.producers = [Producer(self, number) for number in range(setting.producers)]
        self.consumers = [Consumer(self, 50 + number) for number in range(setting.consumers)]
        self.members = [GroupMember(self, 70 + number) for number in range(setting.members)]
        self.topics = TopicAdministrator(self, 90)
        self.partitions = PartitionAdministrator(self, 91)
        self.deleter = RecordDeleter(self, 92)
        self.cluster_invariants = make_cluster_invariants(self)
        self._on_cluster = {
            hook: tuple(
                [getattr(it, hook) for it in self.cluster_invariants if it.implements(hook)]
            )
            for hook in CLUSTER_HOOKS
        }

    # Nodes ---------------------------------------------------------------------------------------

    def is_broker(self, replica: Replica) -> bool:
        """Whether it is a broker only."""
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
            named = ",".join([f"{i}@{host_of(i)}:{CONTROLLER_PORT}" for i in voters])
            quorum = f"controller.quorum.voters={named}"
        roles, listeners, host = [], [], host_of(replica.id)
        if replica.id in setting.brokers:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://{host}:{BROKER_PORT}")
        if replica.id < setting.voters:
            roles.append("controller")
            listeners.append(f"{LISTENER}://{host}:{CONTROLLER_PORT}")
        racks = []
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
                "log.dirs=data",
                f"broker.heartbeat.interval.ms={setting.heartbeat_ms}",
                f"broker.session.timeout.ms={setting.session_ms}",
                f"replica.lag.time.max.ms={setting.lag_ms}",
                f"replica.fetch.wait.max.ms={setting.fetch_wait_ms}",
                "replica.fetch.backoff.ms=200",
                f"leader.imbalance.check.interval.seconds={setting.balance_s}",
                *racks,
                *self._group_settings(),
            ]
        )

    def _group_settings(self) -> list[str]:
        """Also of the offsets topic, which a broker creates for the first member."""
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

    # What nodes show -----------------------------------------------------------------------------

    def _call_hooks(self, hook: str, *arguments: Any) -> None:
        for look in self._on_cluster[hook]:
            look(*arguments)

    def committed(self, key: PartitionKey, first_epoch: int = NEWEST) -> CommittedLog:
        """Of the partition with this first leader epoch; the others of its number were removed."""
        committed_logs = self.committed_logs.setdefault(key, {})
        if first_epoch == NEWEST:
            first_epoch = self.first_epoch(key)
        found = committed_logs.get(first_epoch)
        if found is None:
            found = committed_logs[first_epoch] = CommittedLog()
        return found

    def first_epoch(self, key: PartitionKey, epoch: int = NEWEST) -> int:
        """The first leader epoch of the partition that had an epoch; of the newest."""
        known = self.committed_logs.get(key, ())
        return max([first for first in known if epoch == NEWEST or first <= epoch], default=0)

    def acknowledged_in(self, key: PartitionKey, value: int, offset: int) -> int:
        """The first leader epoch of the partition that has a value; else of the newest."""
        committed_logs = self.committed_logs.get(key, {})
        for first_epoch in sorted(committed_logs, reverse=True):
            values = committed_logs[first_epoch].values
            if values.get(offset) == value or (offset < 0 and value in values.values()):
                return first_epoch
        return self.first_epoch(key)

    def look_at_image(self, node: ClusterNode) -> None:
        quorum = node.node.quorum
        if quorum.applied > self._newest and not quorum.is_applying:
            self._newest, self.image = quorum.applied, node.node.image
            self.progress += 1
            for key, partition in self.image.partitions.items():
                self.committed(key, partition.first_leader_epoch)
            self._call_hooks("on_image", self.image)
            if self.lossy:
                self._forget_recovered()

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
        self._judge()

    def refused(self, value: int) -> None:
        self.history.refused(value)
        self._judge()

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
        """`epoch` is that of the last record; without records it is the consumer's position."""
        first_epoch = self.first_epoch(key, epoch)
        if following > position:
            self.progress += 1
            self.history.polled(consumer.name, key, position, records, following, first_epoch)
        if epoch >= 0 or len(self.committed_logs[key]) == 1:
            self._call_hooks("on_polled", consumer, key, first_epoch, following, high_watermark)
        self._judge()

    def must_restart(
        self, consumer: Consumer, key: PartitionKey, position: int, epoch: int
    ) -> None:
        """A leader does not have the position of a consumer, after a record of an epoch.

        Its records were deleted, or that partition was removed and another of its number added.
        """
        if position < self.deleted_before(key):
            self.saw("consumer of deleted records")
            return
        if self.first_epoch(key, epoch) == self.first_epoch(key):
            raise Violation("consumer", f"{consumer} lost its position {position} of {key}")
        self.saw("consumer of a removed partition")

    def restarted(self, consumer: Consumer, key: PartitionKey, start: int, epoch: int) -> None:
        """A consumer goes on at the start of a log, after a record of an epoch or at its end."""
        if start > self.deleted_before(key):
            raise Violation("consumer", f"{consumer}: {key} starts at {start}: nobody asked for it")
        self.history.restarted(consumer.name, key, start, self.first_epoch(key, epoch))

    def deleted_before(self, key: PartitionKey) -> int:
        """Up to where clients wanted the records of a partition of this name to be deleted."""
        topic = self.image.topics.get(key[0])
        return self.deleter.requested.get((topic.name, key[1]), 0) if topic is not None else 0

    def read_up_to(self, key: PartitionKey) -> int:
        """The next offset of the consumer that has read most."""
        return max([consumer.positions.get(key, 0) for consumer in self.consumers])

    def _judge(self) -> None:
        if self.history.violations:
            raise Violation("client history", self.history.violations[0])

    # Processes and power -------------------------------------------------------------------------

    def kill(self, replica: Replica) -> None:
        if not self._postpones(self.kill, replica):
            super().kill(replica)

    def lose_power(self, replica: Replica) -> None:
        if not self._postpones(self.lose_power, replica):
            super().lose_power(replica)

    def _postpones(self, act: Callable[[Replica], None], replica: Replica) -> bool:
        """No broker is killed if one that has lost data could then be elected, as the last known
        leader: while that one is not registered yet, as all others may restart before it, or if no
        other broker has all of a partition of both."""
        if self._is_ending or not self._is_vulnerable(replica):
            return False
        self.schedule(self.time + POSTPONED_MS, self._unless_healed, act, replica)
        return True

    def _is_vulnerable(self, replica: Replica) -> bool:
        return any(
            broker != replica.id and not self.replicas[broker].is_registered
            for broker in self.lossy
        ) or any(
            self.lossy.intersection(it.replicas) and {*it.isr, *it.elr} - self.lossy == {replica.id}
            for it in self.image.partitions.values()
        )

    def _unless_healed(self, act: Callable[[Replica], None], replica: Replica) -> None:
        if not self.healed:
            act(replica)

    def end_now(self, replica: Replica) -> None:
        """The process has ended by itself."""
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
        if self._is_vulnerable(replica):
            replica.files.stop_before = replica.files.capacity_bytes = None
            replica.files.faults.clear()
        else:
            super().plan_file_faults(replica)

    def sync_fails(self, replica: NodeProcess) -> bool:
        return not self._is_vulnerable(replica) and super().sync_fails(replica)

    def loses_data(self, node: ClusterNode) -> bool:
        """Whether a machine that lost power has lost what was not synced: if fewer than the minimum
        ISR lose some, and every partition has a member of the ISR or ELR that runs and has all of
        it (S5), and no record that may be committed changes that. Else all of it was written."""
        if self.setting.flushes:
            return True
        if len(self.lossy | {node.id}) >= self.setting.min_insync or self._may_change:
            return False
        safe = {broker for broker in self.setting.brokers if self.replicas[broker].is_sound}
        safe -= self.lossy
        if not all({*it.isr, *it.elr} & safe for it in self.image.partitions.values()):
            return False
        if any(
            node.id in it.replicas and len(it.replicas) == 2
            for it in self.image.partitions.values()
        ):
            # Were the other one stopped uncleanly next, this one would be the last known leader.
            return False
        self.lossy.add(node.id)
        self.saw("replicas lost unsynced data")
        return True

    @property
    def _may_change(self) -> bool:
        """Whether a log has records that no node has applied, which may change an ISR."""
        return any(
            it.disk.batches and it.disk.batches[-1].last_offset >= self._newest
            for it in self.replicas.values()
        )

    def _forget_recovered(self) -> None:
        """A broker that is back in the ISR of all its partitions has all data again."""
        for broker in list(self.lossy):
            partitions = self.image.partitions.values()
            node = self.replicas[broker]
            if node.is_registered and all(
                broker in it.isr for it in partitions if broker in it.replicas
            ):
                self.lossy.discard(broker)
                for key in [key for key in node.logs if key in self.image.partitions]:
                    self._call_hooks("on_truncated", node, key)

    def may_be_wiped(self, node: ClusterNode) -> bool:
        """Whether a stopped broker may lose its disk: it is fenced, so that nothing is committed
        without the others any more, and each of its partitions has another sound replica.
        A voter may if a majority of the voters' directories is left."""
        if node.id < self.setting.voters and not may_forget(self, node, 0):
            return False
        if not node.is_broker:
            return True
        known = self.image.brokers.get(node.id)
        others = {it for it in self.setting.brokers if self.replicas[it].is_sound} - self.lossy
        return (
            known is not None
            and known.fenced
            and not self._may_change
            and not self.lossy - {node.id}
            and all(
                {*it.isr, *it.elr} & (others - {node.id})
                for it in self.image.partitions.values()
                if node.id in it.replicas
            )
        )

    def wipe(self, node: ClusterNode) -> None:
        """A node comes back with an empty disk."""
        node.lose_disk(0)
        if node.is_broker:
            self.lossy.add(node.id)
        self.start(node)

    # For scripts ---------------------------------------------------------------------------------

    def logs_of(self, key: PartitionKey) -> Iterable[tuple[ClusterNode, Any]]:
        for broker in self.image.partitions[key].replicas:
            node = self.replicas[broker]
            log = node.logs.get(key)
            if log is not None and log.first_epoch == self.first_epoch(key):
                yield node, log

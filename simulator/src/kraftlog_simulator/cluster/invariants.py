"""The invariants of replication: V19, S1 to S5, S7, S8, S10, V6, V11, and one of deletion.

Each overrides the hooks of the events that may violate it.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftlog.replication.replica_manager import NO_EPOCH
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.committed_log import ANY_EPOCH
from kraftlog_simulator.cluster.producer import ACKS_ALL
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import NoReturn

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import BrokerImage, PartitionImage, PartitionKey
    from kraftlog.replication.partition import Partition
    from kraftlog_simulator.cluster.committed_log import CommittedLog
    from kraftlog_simulator.cluster.consumer import Consumer
    from kraftlog_simulator.cluster.node import ClusterNode, ReplicaSnapshot
    from kraftlog_simulator.cluster.producer import Producer
    from kraftlog_simulator.cluster.replica_logs import ReplicaLog, StoredBatch
    from kraftlog_simulator.cluster.world import ClusterWorld


class ReplicaChange(NamedTuple):
    """A replica whose role or offsets have changed; `before` has the old ones."""

    node: ClusterNode
    key: PartitionKey
    partition: Partition
    before: ReplicaSnapshot | None

    @property
    def committed(self) -> CommittedLog:
        return self.node.world.committed(self.key, self.partition.first_leader_epoch)

    @property
    def log(self) -> ReplicaLog | None:
        """The replica's log, unless it is that of a removed partition of the same number (V11)."""
        log = self.node.logs.get(self.key)
        is_same = log is not None and log.first_epoch == self.partition.first_leader_epoch
        return log if is_same else None


class ClusterInvariant:
    """One property of every run; a subclass overrides the hooks that it needs."""

    name = ""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world

    @classmethod
    def implements(cls, hook: str) -> bool:
        return getattr(cls, hook) is not getattr(ClusterInvariant, hook)

    def fail(self, detail: str) -> NoReturn:
        raise Violation(self.name, detail)

    def on_image(self, image: Image) -> None:
        """A node has applied more of the metadata log than any before."""

    def on_partition(self, before: PartitionImage, after: PartitionImage) -> None:
        """A node has replayed a record that changes a partition; each of them does."""

    def on_replica(self, change: ReplicaChange) -> None:
        """A replica's role or one of its offsets has changed."""

    def on_truncated(self, node: ClusterNode, key: PartitionKey) -> None:
        """A replica may lack batches: it was truncated or restarted, or lost data and is back."""

    def on_acknowledged(
        self, producer: Producer, key: PartitionKey, value: int, offset: int
    ) -> None:
        """A value was acknowledged to a producer; at offset -1, its offset is unknown."""

    def on_polled(
        self,
        consumer: Consumer,
        key: PartitionKey,
        first_epoch: int,
        following: int,
        high_watermark: int,
    ) -> None:
        """A consumer has all records before offset `following` of the log with this first epoch."""

    def on_turn(self, node: ClusterNode) -> None:
        """A turn of a node is over."""

    def on_settled_turn(self, node: ClusterNode) -> None:
        """A turn of a broker is over, and it is in the midst of nothing."""


CLUSTER_HOOKS = tuple([name for name in vars(ClusterInvariant) if name.startswith("on_")])


class AcknowledgedIsKept(ClusterInvariant):
    """V19: what acks=all has acknowledged is not lost while one replica keeps its log.

    As long as a replica has confirmed a record and kept its log, no leader may lack the record, and
    no replica that keeps it may truncate it (S4). Others are excused (`KeptLogs`). This invariant
    is the first, as the others take what it has excused for uncommitted.
    """

    name = "what is acknowledged is kept"

    def on_partition(self, before: PartitionImage, after: PartitionImage) -> None:
        self.world.kept.note_removed(before, after)

    def on_image(self, image: Image) -> None:
        self.world.kept.follow(image)

    def on_replica(self, change: ReplicaChange) -> None:
        node, key, partition, before = change
        log, committed = change.log, change.committed
        if log is None:
            return
        led_in = before.leader_epoch if before is not None and before.online else NO_EPOCH
        if led_in != NO_EPOCH:
            committed.delete_before(partition.start)
        if not partition.online or led_in == partition.leader_epoch:
            return
        if node.may_have_deleted:  # in the turn that a crash has ended
            committed.delete_before(log.start)
        has_kept = self.world.kept.has_kept(node.id, key)
        # A newer leader may have committed more already, in its own epoch.
        epoch = partition.leader_epoch if has_kept else ANY_EPOCH
        missing = committed.missing_in(log, 0, epoch)
        if missing is not None or log.start > committed.deleted_before:
            self._judge(change, missing, log)

    def _judge(self, change: ReplicaChange, missing: StoredBatch | None, log: ReplicaLog) -> None:
        """A new leader lacks a batch, or its log starts after records that nobody deleted."""
        node, key, partition, _ = change
        kept, committed = self.world.kept, change.committed
        what = f"{node} leads {_name(key)} in epoch {partition.leader_epoch}"
        if missing is None:
            if key not in kept.unclean and committed.confirmed:
                self.fail(
                    f"{what} from offset {log.start} on, but records are deleted only before "
                    f"{committed.deleted_before}"
                )
            committed.deleted_before = log.start
            return
        keepers = kept.keepers(committed, missing)
        if keepers and key not in kept.unclean:
            self.fail(
                f"{what} without the acknowledged batch {missing.base} to {missing.end} of epoch "
                f"{missing.epoch}, which brokers {keepers} have confirmed and kept"
            )
        kept.excuse(key, committed, missing.base, log.start)
        kept.lost.pop((node.id, key), None)

    def on_truncated(self, node: ClusterNode, key: PartitionKey) -> None:
        log, newest = node.logs.get(key), self.world.image.partitions.get(key)
        if log is None or newest is None or log.first_epoch != newest.first_leader_epoch:
            return
        if node.has_failed_directory:
            return  # it may have another log, until the disk with the one that it keeps is back
        committed = self.world.committed(key)
        if node.may_have_deleted:  # as the leader, in the turn that a crash has ended
            committed.delete_before(min(log.start, self.world.deleted_before(key)))
        # As in Kafka, a crash may bring back what was deleted; only a leader's is ever read.
        missing = committed.missing_in(log, committed.deleted_before)
        if missing is None or not log.is_known or key in self.world.kept.unclean:
            return
        if missing.end <= committed.confirmed.get(node.id, 0):
            self.fail(
                f"{node} has truncated or deleted the acknowledged batch {missing.base} to "
                f"{missing.end} of {_name(key)}, which it has confirmed; its log ends at "
                f"{log.end}"
            )


class CommittedIsKept(ClusterInvariant):
    """S5, S7: only records below the high watermark of a leader are acknowledged or read.

    Every leader has them when it begins to lead (S4, V19: `AcknowledgedIsKept`), and still has them
    when it commits more. This invariant precedes the others, as it extends the committed log.
    """

    name = "committed is kept"

    def on_replica(self, change: ReplicaChange) -> None:
        node, key, partition, before = change
        log, committed = change.log, change.committed
        if log is None:
            return
        if not partition.online:
            was_open = partition.is_open or (before is not None and before.online)
            is_ahead = partition.high_watermark > committed.high_watermark
            if is_ahead and was_open and not self.world.has_lost_records(key):
                self._extend_by_former_leader(change)
            return
        if partition.high_watermark > committed.high_watermark:
            if log.end < partition.high_watermark:
                self.fail(f"{node}: {_name(key)} ends at {log.end}, before its high watermark")
            committed.extend(log, partition.high_watermark, partition.leader_epoch)
            self.world.kept.confirm(key, committed, partition.isr, partition.partition_epoch)
        elif before is not None and partition.high_watermark > before.high_watermark:
            missing = committed.missing_in(log, before.high_watermark)
            if missing is not None and missing.end <= partition.high_watermark:
                self.fail(
                    f"{node} commits {_name(key)} up to {partition.high_watermark} without the "
                    f"committed batch {missing.base} to {missing.end} of epoch {missing.epoch}"
                )

    def _extend_by_former_leader(self, change: ReplicaChange) -> None:
        """Extend the committed log by a replica that leads no longer.

        Its high watermark may exceed that of all leaders only if it led in this turn: it may have
        become leader in the turn in which it resigned or was removed. A follower's may not.
        """
        node, key, partition, before = change
        if before is None or not (before.online or before.leader_epoch < partition.leader_epoch):
            self.fail(
                f"{node} follows {_name(key)} with the high watermark "
                f"{partition.high_watermark}, which no leader had"
            )
        assert change.log is not None
        change.committed.extend(change.log, partition.high_watermark, before.leader_epoch)
        self.world.kept.confirm(key, change.committed, (node.id,), partition.partition_epoch)

    def on_acknowledged(
        self, producer: Producer, key: PartitionKey, value: int, offset: int
    ) -> None:
        committed = self.world.committed(key, self.world.acknowledged_in(key, value, offset))
        if (
            producer.acks == ACKS_ALL
            and offset >= 0
            and committed.values.get(offset) != value
            and not self.world.has_lost_records(key)
        ):
            self.fail(
                f"{producer}: {value} is acknowledged at {offset} of {_name(key)}, where "
                f"{committed.values.get(offset)} is committed, up to {committed.high_watermark}"
            )

    def on_polled(
        self,
        consumer: Consumer,
        key: PartitionKey,
        first_epoch: int,
        following: int,
        high_watermark: int,
    ) -> None:
        committed = self.world.committed(key, first_epoch).high_watermark
        is_beyond = max(following, high_watermark) > committed
        if is_beyond and not self.world.has_lost_records(key):
            self.fail(
                f"{consumer} read {_name(key)} up to {following}, high watermark "
                f"{high_watermark}, but {committed} is committed"
            )


class StrongIsr(ClusterInvariant):
    """S1, S4: every member of the ISR and the ELR has all records below the high watermark."""

    name = "every ISR member has what is committed"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        #: By committed log, the high watermark up to which all members were checked.
        self._checked: dict[CommittedLog, int] = {}
        #: By partition, its ISR and ELR.
        self._members: dict[PartitionKey, tuple[int, ...]] = {}

    def on_replica(self, change: ReplicaChange) -> None:
        key, committed = change.key, change.committed
        checked = self._checked.get(committed, 0)
        if committed.high_watermark > checked and committed is self.world.committed(key):
            self._checked[committed] = committed.high_watermark
            # The node may be replaying newer records, and may have the new ISR already.
            newest = change.node.node.image.partitions.get(key)
            for member in self._members.get(key, ()):
                if newest is None or member in (*newest.isr, *newest.elr):
                    self._check_member(member, key, checked)

    def on_image(self, image: Image) -> None:
        if len(self._members) > len(image.partitions):
            self._members = {
                key: members for key, members in self._members.items() if key in image.partitions
            }
        for key, partition in image.partitions.items():
            members = (*partition.isr, *partition.elr)
            if self._members.get(key) != members:
                self._members[key] = members
                for member in members:
                    self._check_member(member, key)

    def on_truncated(self, node: ClusterNode, key: PartitionKey) -> None:
        if node.id in self._members.get(key, ()):
            self._check_member(node.id, key)

    def _check_member(self, member: int, key: PartitionKey, start: int = 0) -> None:
        node = self.world.replicas[member]
        log = node.logs.get(key)
        if log is None or not log.is_known or member in self.world.lossy:
            return
        if key in self.world.kept.unclean or not self.world.kept.has_kept(member, key):
            return
        newest = self.world.image.partitions.get(key)
        if newest is not None and member not in (*newest.isr, *newest.elr):
            return  # the broker is no member any more
        if newest is not None and log.first_epoch != newest.first_leader_epoch:
            return  # the broker does not know yet that the partition was removed and added again
        missing = self.world.committed(key).missing_in(log, start)
        if missing is not None:
            self.fail(
                f"{node} is in the ISR or ELR of {_name(key)} without the committed batch "
                f"{missing.base} to {missing.end} of epoch {missing.epoch}; it ends at {log.end}"
            )


class CountsTheIsr(ClusterInvariant):
    """S3: a leader waits for every member of the ISR before it raises its high watermark."""

    name = "the leader counts the ISR"

    def on_replica(self, change: ReplicaChange) -> None:
        node, key, partition, before = change
        if (
            not partition.online
            or before is None
            or partition.high_watermark <= before.high_watermark
        ):
            return
        newest, own = self.world.image.partitions.get(key), node.node.image.partitions.get(key)
        if newest is None or own is None or own.partition_epoch > newest.partition_epoch:
            return
        uncounted = {*newest.isr} - {*partition.maximal_isr}
        if newest.leader_epoch == partition.leader_epoch and uncounted:
            self.fail(
                f"{node} moves the high watermark of {_name(key)} to {partition.high_watermark} "
                f"without {uncounted} of the ISR {newest.isr}"
            )


class SoundIsr(ClusterInvariant):
    """S2: the leader is in the ISR, the ISR among the replicas, and no member is fenced.

    A fenced broker may be the only member of an ISR without a leader or, after a clean restart,
    still lead a partition that has no other replica. If eligible leader replicas are switched off,
    those of a partition without a leader become its ISR (V21): all of them may be fenced.
    """

    name = "sound ISR"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._partitions: dict[PartitionKey, PartitionImage] = {}
        self._brokers: dict[int, BrokerImage] = {}
        #: Partitions whose eligible replicas became the ISR, and the leader epoch until the next.
        self._restored: dict[PartitionKey, int] = {}

    def on_partition(self, before: PartitionImage, after: PartitionImage) -> None:
        eligible = before.elr or before.last_known_elr
        if before.leader < 0 and not before.isr and after.isr == eligible and after.leader < 0:
            self._restored[after.topic_id, after.index] = after.leader_epoch

    def on_image(self, image: Image) -> None:
        brokers_changed = False
        for broker in image.brokers.values():
            if self._brokers.get(broker.id) is not broker:
                self._brokers[broker.id] = broker
                brokers_changed = True
        for key, partition in image.partitions.items():
            if brokers_changed or self._partitions.get(key) is not partition:
                self._partitions[key] = partition
                self._check(image, key, partition)

    def _check(self, image: Image, key: PartitionKey, partition: PartitionImage) -> None:
        leader, isr, elr = partition.leader, partition.isr, partition.elr
        what = f"{_name(key)}: leader {leader}, ISR {isr}, ELR {elr}"
        if leader >= 0 and leader not in isr:
            self.fail(f"{what}: the leader is not in the ISR")
        if {*isr, *elr} - {*partition.replicas} or {*isr} & {*elr}:
            self.fail(f"{what}: the replicas are {partition.replicas}")
        fenced = [broker for broker in isr if image.brokers[broker].fenced]
        may_be_fenced = leader < 0 or partition.replicas == (leader,)
        was_eligible = leader < 0 and self._restored.get(key) == partition.leader_epoch
        if fenced and not (may_be_fenced and isr == (fenced[0],)) and not was_eligible:
            self.fail(f"{what}: {fenced} are fenced")
        if not isr and (leader >= 0 or not (elr or partition.last_known_elr)):
            self.fail(f"{what}: the ISR is empty")


class ReassignmentIsSafe(ClusterInvariant):
    """S10: a reassignment that completes has the minimum ISR among the replicas that remain.

    That holds for the record that completes it: the next one may fence a broker, and shrink the ISR
    again, before the image that has both is seen.
    """

    name = "reassignment is safe"

    def on_partition(self, before: PartitionImage, after: PartitionImage) -> None:
        if not before.reassigning or after.reassigning:
            return
        if {*after.replicas} & {*before.removing} or not before.adding:
            return  # it was cancelled, or added no replicas
        min_isr = min(self.world.least_min_insync, len(before.isr))
        if len(after.isr) < min_isr and after.leader >= 0:
            self.fail(f"{_name((after.topic_id, after.index))}: {before} became {after}")


class EpochsGrow(ClusterInvariant):
    """S8: leader, partition and broker epochs only grow, and one replica leads in an epoch.

    A replica has no epoch while another process is registered under the id of its broker: a late
    registration of an earlier one may take the id over, until the live one has registered again.
    When that is done, the replica must not be in an older epoch than before.
    """

    name = "replication epochs grow"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._partitions: dict[PartitionKey, PartitionImage] = {}
        self._brokers: dict[int, int] = {}
        #: By node, process and partition: the highest leader epoch of the replica.
        self._highest: dict[tuple[int, int, PartitionKey], int] = {}

    def on_image(self, image: Image) -> None:
        for broker in image.brokers.values():
            if broker.epoch < self._brokers.get(broker.id, -1):
                self.fail(f"broker {broker.id} had a higher epoch than {broker.epoch}")
            self._brokers[broker.id] = broker.epoch
        for key, after in image.partitions.items():
            before = self._partitions.get(key)
            if before is after:
                continue
            self._partitions[key] = after
            if before is not None and before != after:
                self._compare(key, before, after)

    def _compare(self, key: PartitionKey, before: PartitionImage, after: PartitionImage) -> None:
        what = f"{_name(key)}: {before} became {after}"
        if (
            after.first_leader_epoch != before.first_leader_epoch
        ):  # the partition was removed and added again (V11)
            if after.first_leader_epoch <= before.leader_epoch:
                self.fail(f"{what}: the leader epoch of the removed partition is used again")
            return
        if after.partition_epoch <= before.partition_epoch:
            self.fail(f"{what}: the partition epoch does not grow")
        if after.leader_epoch < before.leader_epoch:
            self.fail(f"{what}: the leader epoch falls")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            self.fail(f"{what}: another leader in the same epoch")
        if before.leader in after.isr and before.leader != after.leader == after.replicas[0]:
            self.world.saw("preferred leader elected")

    def on_replica(self, change: ReplicaChange) -> None:
        node, key, partition, before = change
        process, lifecycle = (node.id, node.incarnation, key), node.node.broker_lifecycle
        highest = self._highest.get(process, NO_EPOCH)
        if before is not None:
            highest = max(highest, before.leader_epoch)
        if partition.leader_epoch != NO_EPOCH:
            if partition.leader_epoch < highest:
                self.fail(f"{node}: {_name(key)} went back from epoch {highest}")
            self._highest[process] = partition.leader_epoch
        elif lifecycle is not None and lifecycle.registration is not None:
            self.fail(f"{node}: {_name(key)} has no leader epoch, but the broker is registered")
        if partition.leads:
            me = node.id, node.incarnation
            first = change.committed.leaders.setdefault(partition.leader_epoch, me)
            if first != me:
                self.fail(
                    f"{node} leads {_name(key)} in epoch {partition.leader_epoch}, in which "
                    f"node {first[0]} led before"
                )


class HighWatermarkGrows(ClusterInvariant):
    """S7: a leader's high watermark never falls in its epoch; no replica's passes its log end."""

    name = "partition high watermark grows"

    def on_replica(self, change: ReplicaChange) -> None:
        node, key, partition, before = change
        high_watermark = partition.high_watermark
        if partition.is_open and high_watermark > partition.written_end:
            self.fail(
                f"{node}: the high watermark of {_name(key)} is {high_watermark}, "
                f"its log ends at {partition.written_end}"
            )
        if before is None or not (before.leads and partition.leads):
            return
        if (
            before.leader_epoch == partition.leader_epoch
            and before.online
            and high_watermark < before.high_watermark
        ):
            self.fail(
                f"{node}: the high watermark of {_name(key)} fell from "
                f"{before.high_watermark} to {high_watermark}"
            )


class EpochsMatchLog(ClusterInvariant):
    """V6: the epoch cache of a log, by which it is truncated, has the epochs of its batches."""

    name = "epoch cache matches the log"

    def on_replica(self, change: ReplicaChange) -> None:
        view = change.log
        if view is None or view.log is None or not view.batches:
            return
        cached = view.log.epochs.entries()
        expected = [(epoch, max(first, view.start)) for epoch, first in view.epoch_starts]
        if cached[-len(expected) :] != expected:
            self.fail(
                f"{change.node}: {_name(change.key)} has epochs {cached}, its batches {expected}"
            )


class RemovedRecordsAreGone(ClusterInvariant):
    """V11: a partition that was added again has no records of the removed one on any replica."""

    name = "records of removed partitions are gone"

    def on_replica(self, change: ReplicaChange) -> None:
        log = change.log
        if log is not None and log.batches and log.batches[0].epoch < log.first_epoch:
            self.fail(
                f"{change.node}: {_name(change.key)} begins with epoch {log.batches[0].epoch}, "
                f"but its first leader epoch is {log.first_epoch}"
            )


class DeletesOnlyRequested(ClusterInvariant):
    """No replica's log starts after the offset that clients requested (DeleteRecords)."""

    name = "only what clients name is deleted"

    def on_replica(self, change: ReplicaChange) -> None:
        partition = change.partition
        requested = self.world.deleter.requested.get((partition.topic, partition.index), 0)
        if partition.start > requested:
            self.fail(
                f"{change.node}: {_name(change.key)} starts at {partition.start}, but records were "
                f"to be deleted before {requested}"
            )


CLUSTER_INVARIANTS: tuple[type[ClusterInvariant], ...] = (
    AcknowledgedIsKept,
    CommittedIsKept,
    StrongIsr,
    CountsTheIsr,
    SoundIsr,
    ReassignmentIsSafe,
    EpochsGrow,
    HighWatermarkGrows,
    EpochsMatchLog,
    RemovedRecordsAreGone,
    DeletesOnlyRequested,
)


#: Invariants in files of their own; the script of a run adds them.
MORE_INVARIANTS: list[type[ClusterInvariant]] = []


def make_cluster_invariants(world: ClusterWorld) -> tuple[ClusterInvariant, ...]:
    return tuple([invariant(world) for invariant in (*CLUSTER_INVARIANTS, *MORE_INVARIANTS)])


def _name(key: PartitionKey) -> str:
    topic_id, index = key
    return f"{topic_id.hex()[-6:]}-{index}"

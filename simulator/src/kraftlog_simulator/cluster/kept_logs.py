"""Which replicas have kept the records that they confirmed to leaders (V19).

The world knows for each partition up to which offset each replica has confirmed its records
(`CommittedLog.confirmed`), and which replicas have lost their logs, or parts of them, by a fault.
A replica that did not, and has confirmed a record, keeps it. A record that no replica keeps may be
lost, and any record by an unclean election that an operator requested.
"""

from __future__ import annotations

from kraftlog.node.coordinators.group_coordinators import TOPIC as OFFSETS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog_simulator.checkers.partition_history import PartitionHistory
    from kraftlog_simulator.cluster.committed_log import CommittedLog
    from kraftlog_simulator.cluster.replica_logs import StoredBatch

    class WorldOfLogs(Protocol):
        """What is used of the world."""

        image: Image
        history: PartitionHistory

        def saw(self, what: str) -> None: ...
        def committed(self, key: PartitionKey) -> CommittedLog: ...


#: The epoch of a broker that has never been registered.
UNREGISTERED = -1


class KeptLogs:
    """`lost` has the replicas that lost their logs and have not caught up since.

    Each is listed with the epoch that its broker had: once a later process of it has entered the
    ISR as a follower, it keeps its log again.
    """

    def __init__(self, world: WorldOfLogs) -> None:
        self._world = world
        self.lost: dict[tuple[int, PartitionKey], int] = {}
        #: Brokers whose machines lost power, so that they cannot know that they lost nothing.
        self._doubtful: set[int] = set()
        #: Partitions for which an operator requested an unclean election.
        self.unclean: set[PartitionKey] = set()
        #: Partitions with lost records: what their clients see is not judged any more.
        self.excused: set[PartitionKey] = set()
        self.has_lost_offsets = False
        self._partitions: dict[PartitionKey, PartitionImage] = {}
        #: The partition epochs in which brokers became replicas; the others always were.
        self._replica_since: dict[tuple[int, PartitionKey], int] = {}
        #: The newest first leader epoch and partition epoch in which brokers ceased to be replicas.
        self._left: dict[tuple[int, PartitionKey], tuple[int, int]] = {}

    def lose(self, broker: int, key: PartitionKey) -> None:
        """A fault has taken the log of a replica, or a part of it."""
        registration = self._world.image.brokers.get(broker)
        self.lost[broker, key] = UNREGISTERED if registration is None else registration.epoch
        self._world.committed(key).confirmed.pop(broker, None)

    def doubt(self, broker: int) -> None:
        """A machine has lost power, and with it what its broker knows of its logs."""
        self._doubtful.add(broker)

    def may_lead(self, broker: int, key: PartitionKey) -> bool:
        """Whether a replica has kept its log, and its broker can know that."""
        return (broker, key) not in self.lost and broker not in self._doubtful

    def has_kept(self, broker: int, key: PartitionKey) -> bool:
        return (broker, key) not in self.lost

    def keepers(self, committed: CommittedLog, batch: StoredBatch) -> list[int]:
        """The brokers that have confirmed a batch and kept it."""
        return [broker for broker, end in committed.confirmed.items() if end >= batch.end]

    def confirm(
        self, key: PartitionKey, committed: CommittedLog, isr: Iterable[int], partition_epoch: int
    ) -> None:
        """A leader has committed records with the ISR that it knows, as of this partition epoch.

        All its members have confirmed them; those that are replicas no more may delete their logs,
        also if they were added again since.
        """
        partition = self._partitions.get(key)
        replicas = () if partition is None else partition.replicas
        for broker in isr:
            is_same = self._replica_since.get((broker, key), 0) <= partition_epoch
            if broker in replicas and is_same and (broker, key) not in self.lost:
                committed.confirmed[broker] = committed.high_watermark

    def excuse(self, key: PartitionKey, committed: CommittedLog, offset: int, start: int) -> None:
        """The records from an offset on are lost, and those before the new leader's start."""
        self._world.saw("records without a keeper lost")
        committed.forget_from(offset, start)
        self.excused.add(key)
        self._world.history.excuse(key)
        topic = self._world.image.topics.get(key[0])
        if topic is not None and topic.name == OFFSETS:
            self.has_lost_offsets = True

    # The image -----------------------------------------------------------------------------------

    def note_removed(self, before: PartitionImage, after: PartitionImage) -> None:
        """A record removes replicas; one of the next may add them again within the same image."""
        for broker in {*before.replicas} - {*after.replicas}:
            replica = broker, (after.topic_id, after.index)
            left = after.first_leader_epoch, after.partition_epoch
            self._left[replica] = max(left, self._left.get(replica, left))

    def follow(self, image: Image) -> None:
        """Note who has caught up, and who is no replica any more."""
        for key, after in image.partitions.items():
            before = self._partitions.get(key)
            if before is after:
                continue
            self._partitions[key] = after
            if before is None or before.first_leader_epoch != after.first_leader_epoch:
                self._forget_except(key, ())
                continue
            seen = before.first_leader_epoch, before.partition_epoch
            stayed = [
                broker
                for broker in before.replicas
                if broker in after.replicas and self._left.get((broker, key), seen) <= seen
            ]
            self._forget_except(key, stayed)
            for broker in {*after.replicas} - {*stayed}:
                self._replica_since[broker, key] = after.partition_epoch
            # Without a leader nobody catches up: eligible.leader.replicas.version was lowered, and
            # the last known leader is written as the ISR again.
            if after.leader >= 0:
                for broker in {*after.isr} - {*before.isr, after.leader}:
                    self._caught_up(broker, key, image)

    def _caught_up(self, broker: int, key: PartitionKey, image: Image) -> None:
        """A follower has entered the ISR: it has all that is committed."""
        lost_in = self.lost.get((broker, key))
        if lost_in is not None:
            if image.brokers[broker].epoch <= lost_in:
                return  # as the process that had not lost its log yet
            del self.lost[broker, key]
            self._world.saw("replica caught up after it lost its log")
        committed = self._world.committed(key)
        committed.confirmed[broker] = committed.high_watermark

    def _forget_except(self, key: PartitionKey, replicas: Iterable[int]) -> None:
        """Other brokers have no logs of the partition, or delete them."""
        kept = {*replicas}
        committed = self._world.committed(key)
        for broker in [broker for broker in committed.confirmed if broker not in kept]:
            del committed.confirmed[broker]
        for noted in (self.lost, self._replica_since):
            gone = [each for each in noted if each[1] == key and each[0] not in kept]
            for replica in gone:
                del noted[replica]

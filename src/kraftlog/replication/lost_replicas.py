"""`LostReplicas`: replicas of this broker whose log lost records, or is not the recorded one (V19).

Such a replica may be the last in-sync one, or the last known leader. If it led, others would
truncate what they still have. So the metadata must not name it as able to lead:
 - a log that lacks committed records, or whose folder is gone, is reported as Kafka's LOST
   directory, before the broker asks to be unfenced;
 - a log that cannot be opened is reported as FAILED, as a failed directory would be, also if an
   unclean election has chosen it;
 - if the recorded directory is not one of this broker's (its disk was replaced), nothing is
   reported: that directory is offline, and the replica leads again if it comes back.
Once the replica has caught up with a leader, or leads after an unclean election, its directory is
reported as usual.
"""

from __future__ import annotations

from kraftlog.effects import LogComplete, LogLine
from kraftlog.metadata.values import DirectoryId, is_reserved
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from kraftlog.effects import LogOpened
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import PartitionImage
    from kraftlog.ports.logs import Directory
    from kraftlog.replication.directory_assignments import DirectoryAssignments
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Uuid


class LostReplicas:
    """Decides what this broker reports as the directory of a replica, and when."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataLoader,
        assignments: DirectoryAssignments,
        emit: Callable[[Any], None],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._assignments = assignments
        self._emit = emit
        #: The replicas that have yet to catch up, with the directories that have their logs, and
        #: their leader epochs when these were opened.
        self.incomplete: dict[Partition, tuple[Uuid, int]] = {}
        #: The replicas whose log could not be opened, read or written.
        self.without_log: set[Partition] = set()
        #: The missing directories that were logged.
        self._logged: set[Uuid] = set()

    @property
    def are_reported(self) -> bool:
        """Whether the controller knows all replicas of this broker that must not lead."""
        return not self._assignments.reports_lost

    def opened(self, partition: Partition, log: LogOpened) -> None:
        """The log is open: report its directory now, or once the replica has caught up.

        A log without other replicas is all that there is, even if it has lost records.
        """
        self.without_log.discard(partition)
        directory, epoch = log.directory, self._leader_epoch(partition)
        if self._is_elsewhere(partition) and not log.is_original:
            self.incomplete[partition] = directory, epoch
            self._log_elsewhere(partition)
        elif self._lacks_records(partition, log):
            self.incomplete[partition] = directory, epoch
            if self._others_rely_on(partition):
                self._report_lost(partition)
        else:
            self._report_placed(partition, directory)

    def check(self, partition: Partition, directory: Uuid) -> None:
        """The broker is registered again: the metadata may name a directory of another process."""
        if partition in self.incomplete:
            return
        if self._is_elsewhere(partition) or self._last_report(partition) == DirectoryId.LOST:
            self.incomplete[partition] = directory, self._leader_epoch(partition)
        else:
            self._report_placed(partition, directory)

    def placed(self, partition: Partition, directory: Uuid) -> None:
        """A move has brought the log to a directory, or left it there: report that.

        If the replica has yet to catch up, the metadata must not name the directory before it has.
        """
        if partition in self.incomplete:
            self.incomplete[partition] = directory, self.incomplete[partition][1]
        else:
            self._assignments.assign((partition.topic_id, partition.index), directory)

    def failed(self, partition: Partition, directories: Collection[Directory]) -> None:
        """The log cannot be read or written; heartbeats report it if its directory has failed."""
        self.without_log.add(partition)
        offline = [directory.id for directory in directories if directory.is_offline]
        assigned = self._assigned(partition)
        if assigned in offline or (offline and is_reserved(assigned)):
            return
        if not self._is_elsewhere(partition):
            self._report(partition, DirectoryId.FAILED)

    def elected(self, partition: Partition, directories: Collection[Directory]) -> None:
        """The replica without a log is to lead: have the controller elect another one (V18).

        An unclean election may choose a replica in an offline directory. It names another one, or
        none, so no heartbeat reports the replica.
        """
        offline = [directory.id for directory in directories if directory.is_offline]
        if self._assigned(partition) not in offline:
            self._report(partition, DirectoryId.FAILED)

    def may_lead(self, partition: Partition) -> bool:
        """Whether the metadata lets a replica lead although it has not caught up.

        It does after an unclean election, which names another directory.
        """
        if partition not in self.incomplete:
            return True
        _, epoch = self.incomplete[partition]
        is_lost = self._assigned(partition) == DirectoryId.LOST or self._is_elsewhere(partition)
        return not is_lost and self._leader_epoch(partition) > epoch

    def caught_up(self, partition: Partition) -> None:
        """The replica has all that its leader has committed, or leads itself."""
        incomplete = self.incomplete.pop(partition, None)
        if incomplete is not None:
            self._emit(LogComplete(partition.log))
            self._report_placed(partition, incomplete[0])

    def forget(self, partition: Partition) -> None:
        """The replica was removed."""
        self.incomplete.pop(partition, None)
        self.without_log.discard(partition)
        topic_id = partition.topic_id
        may_return = topic_id in self._metadata.image.topics
        self._assignments.forget((topic_id, partition.index), may_return=may_return)

    def _lacks_records(self, partition: Partition, log: LogOpened) -> bool:
        """Whether the log lacks records, or an earlier process has reported that it does.

        Its directory may not show that any more: the disk may have been replaced since. Then a log
        that has failed before is not in it.
        """
        last = self._last_report(partition)
        if last == DirectoryId.LOST or (last == DirectoryId.FAILED and self._is_new(log)):
            return True
        return log.lacks_records and partition.replica_count > 1

    @staticmethod
    def _is_new(log: LogOpened) -> bool:
        """Whether the directory has never had records of the log."""
        return not log.end and not log.lacks_records

    def _others_rely_on(self, partition: Partition) -> bool:
        """Whether the metadata would let this replica lead."""
        image = self._recorded(partition)
        if image is None:
            return False
        return self._broker_id in (*image.isr, *image.elr, *image.last_known_elr)

    def _report_lost(self, partition: Partition) -> None:
        """Report a lost replica, once: an election that is yet to be replayed may choose it."""
        key, assigned = (partition.topic_id, partition.index), self._assigned(partition)
        if self._assignments.reported(key, assigned) == DirectoryId.LOST:
            return
        topic, index = partition.log
        self._emit(
            LogLine(
                f"{topic}-{index}: this replica lacks committed records, or may: it does not "
                "lead until it has caught up with another one"
            )
        )
        self._assignments.assign(key, DirectoryId.LOST)

    def _log_elsewhere(self, partition: Partition) -> None:
        """Log once for each missing directory why its replicas do not lead."""
        missing = self._assigned(partition)
        if missing in self._logged:
            return
        self._logged.add(missing)
        topic, index = partition.log
        self._emit(
            LogLine(
                f"{topic}-{index}: the metadata has this replica, and maybe others, in the log "
                f"directory with the id {uuid_text(missing)}, which is not one of this broker's. "
                "They cannot lead until they have caught up with other replicas. If that directory "
                "exists, add it to log.dirs; if it is lost, and no other replica can lead, an "
                "unclean election (kraftlog leader-election) accepts the loss"
            )
        )

    # What the metadata says ----------------------------------------------------------------------

    def _recorded(self, partition: Partition) -> PartitionImage | None:
        return self._metadata.image.partitions.get((partition.topic_id, partition.index))

    def _leader_epoch(self, partition: Partition) -> int:
        image = self._recorded(partition)
        return -1 if image is None else image.leader_epoch

    def _assigned(self, partition: Partition) -> Uuid:
        """The recorded directory of the replica."""
        image = self._recorded(partition)
        return DirectoryId.MIGRATING if image is None else image.directory(self._broker_id)

    def _last_report(self, partition: Partition) -> Uuid:
        """The directory that was reported last for the replica, by this process or another."""
        key = partition.topic_id, partition.index
        return self._assignments.reported(key, self._assigned(partition))

    def _registered(self) -> tuple[Uuid, ...]:
        """The directories of this broker that are online, as the metadata has them."""
        broker = self._metadata.image.brokers.get(self._broker_id)
        return () if broker is None else broker.directories

    def _is_elsewhere(self, partition: Partition) -> bool:
        """Whether the recorded directory is none of this broker's."""
        assigned, registered = self._assigned(partition), self._registered()
        return bool(registered) and not is_reserved(assigned) and assigned not in registered

    def _report(self, partition: Partition, directory: Uuid) -> None:
        """Report a directory unless the metadata has it, and nothing else was reported since."""
        key, assigned = (partition.topic_id, partition.index), self._assigned(partition)
        if assigned != directory or self._assignments.reported(key, assigned) != directory:
            self._assignments.assign(key, directory)

    def _report_placed(self, partition: Partition, directory: Uuid) -> None:
        """Report where the log is, unless the metadata has it or is from before such reports.

        A log that is being moved is where the last report says.
        """
        registered, key = self._registered(), (partition.topic_id, partition.index)
        reported = self._assignments.reported(key, directory)
        if not is_reserved(reported):
            directory = reported
        if directory not in registered:
            return
        self._assignments.opened(key, directory)
        is_implied = self._assigned(partition) == DirectoryId.MIGRATING and len(registered) == 1
        if not is_implied:
            self._report(partition, directory)

"""The log directories of a node (JBOD): which log is where, and where a new one goes."""

from __future__ import annotations

from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogFailed,
    MarkStrays,
    MoveLogStart,
    OpenLog,
    TruncatePartition,
)
from kraftlog.metadata.values import reserved
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.data_directory import DataDirectory
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.runner.data_directory import DirectoryServices
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.types import LogName, Now


class DataDirectories:
    """Hands the effects for logs to the directory that has the log.

    A new log goes to the directory that the metadata assigns, or else to the online one with the
    fewest logs. If a directory could not be opened at the start (`lost`), a replica that the
    metadata assigns to none of the others is in there: it is offline, and not created again.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        metadata: LogDirectory,
        services: DirectoryServices,
        lost: Sequence[str],
    ) -> None:
        self._notify = services.notify
        self._log_line = services.log_line
        self._lost = lost
        self._for_partitions = [DataDirectory(it, services) for it in directories]
        self._every = self._for_partitions[:]
        if metadata not in directories:
            self._every.append(DataDirectory(metadata, services))
        self._by_id = {it.directory.id: it for it in self._for_partitions}
        #: Where each log is, or is to be created.
        self._by_log: dict[LogName, DataDirectory] = {}
        for each in self._for_partitions:
            self._by_log.update(dict.fromkeys(each.directory.unopened - {METADATA_LOG}, each))
        #: The number of logs that each directory has, or is to create.
        self._counts = dict.fromkeys(self._for_partitions, 0)
        for each in self._by_log.values():
            self._counts[each] += 1
        self.carry_out: dict[type, Callable[[Any, Now], None]] = {
            OpenLog: self._open,
            ConfigureLog: self._to_its_directory,
            DeleteLog: self._delete,
            TruncatePartition: self._to_its_directory,
            MarkStrays: self._mark_strays,
            MoveLogStart: self._move_start,
        }

    def of(self, log: LogName) -> DataDirectory:
        """The directory of a log that is open."""
        return self._by_log[log]

    # Effects -------------------------------------------------------------------------------------

    def _open(self, effect: OpenLog, now: Now) -> None:
        found = self._by_log.get(effect.log) or self._place(effect)
        if found is None:
            lost = ", ".join(self._lost)
            why = f"{effect.log[0]}-{effect.log[1]}: its log directory is offline, one of {lost}"
            self._log_line(why)
            self._notify(LogFailed(effect.log, effect.topic_id, why), now)
            return
        if effect.log not in self._by_log:
            self._by_log[effect.log] = found
            self._counts[found] += 1
        found.lifecycle.carry_out[OpenLog](effect, now)

    def _place(self, effect: OpenLog) -> DataDirectory | None:
        """The directory for a log that does not exist; None if it exists where it can't be read."""
        assigned = self._by_id.get(effect.directory)
        if assigned is not None:
            return assigned
        if self._lost and not reserved(effect.directory):
            return None
        online = [it for it in self._for_partitions if not it.directory.is_offline]
        return min(online or self._for_partitions, key=self._counts.__getitem__)

    def _to_its_directory(self, effect: Any, now: Now) -> None:
        found = self._by_log.get(effect.log)
        if found is not None:
            found.lifecycle.carry_out[type(effect)](effect, now)

    def _delete(self, effect: DeleteLog, now: Now) -> None:
        found = self._by_log.pop(effect.log, None)
        if found is not None:
            self._counts[found] -= 1
            found.lifecycle.carry_out[DeleteLog](effect, now)

    def _move_start(self, effect: MoveLogStart, _: Now) -> None:
        found = self._by_log.get(effect.log)
        if found is not None:
            found.maintenance.move_start(effect.log, effect.offset)

    def _mark_strays(self, effect: MarkStrays, now: Now) -> None:
        for each in self._for_partitions:
            for log in each.directory.unopened - effect.logs:
                if self._by_log.pop(log, None) is not None:
                    self._counts[each] -= 1
            each.lifecycle.carry_out[MarkStrays](effect, now)

    # The turn ------------------------------------------------------------------------------------

    def maintain(self, node: Node, now: Now) -> None:
        for each in self._every:
            each.maintain(node, now)

    def check(self, now: Now) -> None:
        """Report directories that have failed."""
        for each in self._every:
            each.check(now, fails_its_logs=len(self._for_partitions) > 1)

    def deadline(self) -> int:
        return min([each.deadline() for each in self._every])

    @property
    def has_work(self) -> bool:
        return any(each.has_work for each in self._every)

    def close(self, node: Node, broker_epoch: int) -> None:
        for each in self._every:
            each.close(node, broker_epoch)

    def release(self) -> None:
        """Release all files and locks without writing anything."""
        for each in self._every:
            each.directory.release()

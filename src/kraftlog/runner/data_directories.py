"""The log directories of a node (JBOD): which log is where, and where a new one goes."""

from __future__ import annotations

from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogComplete,
    LogFailed,
    LogOpened,
    MarkStrays,
    MoveLogStart,
    MoveReplica,
    OpenLog,
    TruncatePartition,
)
from kraftlog.errors import StorageError
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.data_directory import DataDirectory
from kraftlog.runner.found_copies import FoundCopies, NoReplicaError
from kraftlog.runner.log_moves import LogMoves
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.runner.data_directory import DirectoryServices
    from kraftlog.runner.log_moves import LogMove
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Now, Uuid


class DataDirectories:
    """Routes the effects for a log to the directory that has the log.

    A new log goes to the directory that the metadata assigns, or else to the online one with the
    fewest logs, and to a cordoned one only if all are. A log that is gone begins again in the
    directory that had it, which alone knows of the loss. If a directory could not be opened at the
    start (`lost`), a replica that the metadata assigns to a directory that is not open may be in
    it: the replica is offline, and is not created again. `found_copies` decides where a replica is
    that has left something in more than one directory.
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
        self._step = services.step
        self.moves = LogMoves(
            services.files,
            services.io_threads.maintenance,
            services.log_line,
            services.notify,
            self._moved,
            lambda move: self.found.keep(move.name, move.target),
        )
        #: The ids of the cordoned directories.
        self.cordoned: Callable[[], Collection[Uuid]] = tuple
        #: Called with a log that was moved, and with the copy that replaces it.
        self.on_replaced: Callable[[Log, Log], None] = _ignore
        services = services.replace(notify=self._report)
        is_moving = self.moves.moves.__contains__
        self._for_partitions = [
            DataDirectory(directory, services, is_moving) for directory in directories
        ]
        self._all = self._for_partitions[:]
        if metadata not in directories:
            self._all.append(DataDirectory(metadata, services, is_moving))
        self.found = FoundCopies(
            services.files, self._for_partitions, lost, services.log_line, self.moves.begin
        )
        self._by_id = {directory.directory.id: directory for directory in self._for_partitions}
        #: The directory of each log that exists or is to be created.
        self._by_log: dict[LogName, DataDirectory] = {}
        for directory in self._for_partitions:
            self._by_log.update(
                dict.fromkeys(directory.directory.unopened - {METADATA_LOG}, directory)
            )
        #: The number of logs that each directory has, or is to create.
        self._counts = dict.fromkeys(self._for_partitions, 0)
        for directory in self._by_log.values():
            self._counts[directory] += 1
        self.carry_out: dict[type, Callable[[Any, Now], None]] = {
            OpenLog: self._open,
            ConfigureLog: self._pass_on,
            LogComplete: self._pass_on,
            DeleteLog: self._delete,
            TruncatePartition: self._truncate,
            MarkStrays: self._mark_strays,
            MoveLogStart: self._move_start,
            MoveReplica: self._move,
        }

    def directory_of(self, log: LogName) -> DataDirectory:
        """The directory of a log that is open."""
        return self._by_log[log]

    # Effects -------------------------------------------------------------------------------------

    def _open(self, effect: OpenLog, now: Now) -> None:
        try:
            directory = self.found.find(effect) or self._place(effect)
        except (NoReplicaError, StorageError) as error:
            why = f"{effect.log[0]}-{effect.log[1]}: {error}"
            self._log_line(why)
            self._notify(LogFailed(effect.log, effect.topic_id, why), now)
            return
        former = self._by_log.get(effect.log)
        if former is not None:
            self._counts[former] -= 1
        self._by_log[effect.log] = directory
        self._counts[directory] += 1
        directory.lifecycle.carry_out[OpenLog](effect, now)

    def _place(self, effect: OpenLog) -> DataDirectory:
        """The directory for a new log, or for one whose folder is gone (V19)."""
        assigned = self._by_id.get(effect.directory)
        former = [it for it in self._for_partitions if it.lifecycle.had_records(effect)]
        if former and assigned not in former:
            return former[0]
        if assigned is not None:
            return assigned
        online = [
            directory for directory in self._for_partitions if not directory.directory.is_offline
        ]
        cordoned = self.cordoned()
        uncordoned = [directory for directory in online if directory.directory.id not in cordoned]
        return min(uncordoned or online or self._for_partitions, key=self._counts.__getitem__)

    def _report(self, report: Any, now: Now) -> None:
        """Pass on a report; add what only this object knows about an open log."""
        if isinstance(report, LogOpened) and report.log in self.found.originals:
            report = report.replace(is_original=True)
        self._notify(report, now)

    def _truncate(self, effect: TruncatePartition, now: Now) -> None:
        self._pass_on(effect, now)
        self.moves.truncate(effect)

    def _pass_on(self, effect: Any, now: Now) -> None:
        directory = self._by_log.get(effect.log)
        if directory is not None:
            directory.lifecycle.carry_out[type(effect)](effect, now)

    def _delete(self, effect: DeleteLog, now: Now) -> None:
        self.moves.cancel(effect.log)
        self.found.forget(effect.log, effect.topic_id)
        directory = self._by_log.pop(effect.log, None)
        if directory is not None:
            self._counts[directory] -= 1
            directory.lifecycle.carry_out[DeleteLog](effect, now)

    def _move_start(self, effect: MoveLogStart, _: Now) -> None:
        directory = self._by_log.get(effect.log)
        if directory is not None:
            directory.maintenance.move_start(effect.log, effect.offset)

    def _mark_strays(self, effect: MarkStrays, now: Now) -> None:
        self.found.forget_all_but(effect.logs)
        for directory in self._for_partitions:
            for log in directory.directory.unopened - effect.logs:
                if self._by_log.pop(log, None) is not None:
                    self._counts[directory] -= 1
            directory.lifecycle.carry_out[MarkStrays](effect, now)

    # Moves ---------------------------------------------------------------------------------------

    def _move(self, effect: MoveReplica, _: Now) -> None:
        """Begin to move a log; this cancels its previous move, if any."""
        source, target = self._by_log.get(effect.log), self._by_id.get(effect.directory)
        if source is None or target is None:
            return
        log = source.directory.logs.get(effect.log)
        if log is None or log.topic_id != effect.topic_id:
            return
        self.moves.begin(effect.log, source, target)

    def _moved(self, move: LogMove) -> None:
        self._counts[move.source] -= 1
        self._counts[move.target] += 1
        self._by_log[move.name] = move.target
        self.on_replaced(move.log, move.target.directory.logs[move.name])
        if move.next_target is not None:
            self.moves.begin(move.name, move.target, move.next_target)

    # The turn ------------------------------------------------------------------------------------

    def maintain(self, node: Node, now: Now) -> None:
        for directory in self._all:
            directory.maintain(node, now)
        if self.found.has_any:
            self.found.settle(node, self._by_log.get)
        if self.moves.take_turn(node, now):
            self._step("moves between directories")

    def check(self, node: Node, now: Now) -> None:
        """Report directories that have failed or cannot be written; the flushes have begun."""
        for directory in self._all:
            directory.check(node, now, fails_its_logs=len(self._for_partitions) > 1)

    def deadline(self) -> int:
        due_ms = [directory.deadline() for directory in self._all]
        return min(due_ms if self.moves.due_ms is None else [*due_ms, self.moves.due_ms])

    @property
    def has_work(self) -> bool:
        return self.moves.has_work or any(directory.has_work for directory in self._all)

    def close(self, node: Node, broker_epoch: int) -> None:
        self.moves.close()
        for directory in self._all:
            directory.close(node, broker_epoch)

    def release(self) -> None:
        """Release all files and locks without writing anything."""
        self.moves.close()
        for directory in self._all:
            directory.directory.release()


def _ignore(_: Log, __: Log) -> None:
    """The default for `on_replaced`."""

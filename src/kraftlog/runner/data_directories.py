"""The log directories of a node (JBOD): which log is where, and where a new one goes."""

from __future__ import annotations

from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogComplete,
    LogFailed,
    MarkStrays,
    MoveLogStart,
    MoveReplica,
    OpenLog,
    TruncatePartition,
)
from kraftlog.errors import StorageError
from kraftlog.metadata.values import is_reserved
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.data_directory import DataDirectory
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
    fewest logs, and to a cordoned one only if all are. If a directory could not be opened at the
    start (`lost`), a replica that the metadata assigns to a directory that is not open may be in
    it: the replica is offline, and is not created again.
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
        self._step = services.step
        self.moves = LogMoves(
            services.files,
            services.io_threads.maintenance,
            services.log_line,
            services.notify,
            self._moved,
        )
        #: The ids of the cordoned directories.
        self.cordoned: Callable[[], Collection[Uuid]] = tuple
        #: Called with a log that was moved, and with the copy that replaces it.
        self.on_replaced: Callable[[Log, Log], None] = _ignore
        is_moving = self.moves.moves.__contains__
        self._for_partitions = [
            DataDirectory(directory, services, is_moving) for directory in directories
        ]
        self._all = self._for_partitions[:]
        if metadata not in directories:
            self._all.append(DataDirectory(metadata, services, is_moving))
        _delete_former_copies(directories, services.log_line)
        self._by_id = {directory.directory.id: directory for directory in self._for_partitions}
        #: The directory of each log that exists or is to be created.
        self._by_log: dict[LogName, DataDirectory] = {}
        for directory in self._for_partitions:
            self._by_log.update(
                dict.fromkeys(directory.directory.unopened - {METADATA_LOG}, directory)
            )
        #: The target directories of moves that the last process did not complete.
        self._unfinished_moves = {
            name: directory
            for directory in self._for_partitions
            for name in directory.directory.unfinished_moves
        }
        #: The number of logs that each directory has, or is to create.
        self._counts = dict.fromkeys(self._for_partitions, 0)
        for directory in self._by_log.values():
            self._counts[directory] += 1
        self.carry_out: dict[type, Callable[[Any, Now], None]] = {
            OpenLog: self._open,
            ConfigureLog: self._pass_on,
            LogComplete: self._pass_on,
            DeleteLog: self._delete,
            TruncatePartition: self._pass_on,
            MarkStrays: self._mark_strays,
            MoveLogStart: self._move_start,
            MoveReplica: self._move,
        }

    def directory_of(self, log: LogName) -> DataDirectory:
        """The directory of a log that is open."""
        return self._by_log[log]

    # Effects -------------------------------------------------------------------------------------

    def _open(self, effect: OpenLog, now: Now) -> None:
        directory = self._by_log.get(effect.log) or self._place(effect)
        if directory is None:
            lost = ", ".join(self._lost)
            why = f"{effect.log[0]}-{effect.log[1]}: its log directory is offline, one of {lost}"
            self._log_line(why)
            self._notify(LogFailed(effect.log, effect.topic_id, why), now)
            return
        if effect.log not in self._by_log:
            self._by_log[effect.log] = directory
            self._counts[directory] += 1
        directory.lifecycle.carry_out[OpenLog](effect, now)

    def _place(self, effect: OpenLog) -> DataDirectory | None:
        """The directory for a new log; None if it may exist in a directory that cannot be read."""
        assigned = self._by_id.get(effect.directory)
        if assigned is not None:
            return assigned
        if self._lost and not is_reserved(effect.directory):
            return None
        online = [
            directory for directory in self._for_partitions if not directory.directory.is_offline
        ]
        cordoned = self.cordoned()
        uncordoned = [directory for directory in online if directory.directory.id not in cordoned]
        return min(uncordoned or online or self._for_partitions, key=self._counts.__getitem__)

    def _pass_on(self, effect: Any, now: Now) -> None:
        directory = self._by_log.get(effect.log)
        if directory is not None:
            directory.lifecycle.carry_out[type(effect)](effect, now)

    def _delete(self, effect: DeleteLog, now: Now) -> None:
        self.moves.cancel(effect.log)
        directory = self._by_log.pop(effect.log, None)
        if directory is not None:
            self._counts[directory] -= 1
            directory.lifecycle.carry_out[DeleteLog](effect, now)

    def _move_start(self, effect: MoveLogStart, _: Now) -> None:
        directory = self._by_log.get(effect.log)
        if directory is not None:
            directory.maintenance.move_start(effect.log, effect.offset)

    def _mark_strays(self, effect: MarkStrays, now: Now) -> None:
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
        current = self.moves.moves.get(effect.log)
        if current is not None and current.target is target:
            return
        self.moves.cancel(effect.log)
        if target is not source:
            self.moves.begin(effect.log, source, target)

    def _moved(self, move: LogMove) -> None:
        self._counts[move.source] -= 1
        self._counts[move.target] += 1
        self._by_log[move.name] = move.target
        self.on_replaced(move.log, move.target.directory.logs[move.name])

    def _resume_moves(self) -> None:
        """Restart the moves that the last process did not complete, once their logs are open."""
        for name, target in list(self._unfinished_moves.items()):
            source = self._by_log.get(name)
            if source is None or source is target:
                del self._unfinished_moves[name]  # deleted, or moved already
            elif name in source.directory.logs:
                del self._unfinished_moves[name]
                self.moves.begin(name, source, target)

    # The turn ------------------------------------------------------------------------------------

    def maintain(self, node: Node, now: Now) -> None:
        for directory in self._all:
            directory.maintain(node, now)
        if self._unfinished_moves:
            self._resume_moves()
        if self.moves.take_turn(node, now):
            self._step("moves between directories")

    def check(self, now: Now) -> None:
        """Report directories that have failed."""
        for directory in self._all:
            directory.check(now, fails_its_logs=len(self._for_partitions) > 1)

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


def _delete_former_copies(
    directories: Sequence[LogDirectory], log_line: Callable[[str], None]
) -> None:
    """Delete the older log of a partition if a move was interrupted after its copy was complete.

    The newer log is the one that is marked as moved. If both are marked, or neither is, the start
    of the node fails.
    """
    directories_by_log: dict[LogName, LogDirectory] = {}
    for directory in directories:
        for name in sorted(directory.unopened - {METADATA_LOG}):
            other = directories_by_log.setdefault(name, directory)
            if other is directory:
                continue
            if directory.is_marked_as_moved(name) == other.is_marked_as_moved(name):
                raise StorageError(
                    f"{other.folder(name)} and {directory.folder(name)}: a partition has one log; "
                    "remove the older one"
                )
            newer, older = sorted(
                (directory, other), key=lambda directory: not directory.is_marked_as_moved(name)
            )
            directories_by_log[name] = newer
            log_line(f"{older.folder(name)}: deleted, because it was moved to {newer.path}")
            older.delete(name)


def _ignore(_: Log, __: Log) -> None:
    """The default for `on_replaced`."""

"""Moves logs between the log directories of a node, while they are read and written (V22).

A move copies the log into a folder of the target directory that ends in `-future`, as Kafka does. A
copy that has caught up is mirrored: every record is in both logs before anything that a turn has
done is seen outside, and both are flushed together. It is marked as whole, and the controller is
asked to record its directory: from then on the replica survives the loss of either disk. Once the
metadata names the target, the copy takes the log's name within a turn, and the original log is
deleted.

Until then the original is the replica: if the target fails, the controller is asked to record the
source again. What a restart does with two logs, or a log and a copy, is in `found_copies`.
"""

from __future__ import annotations

from kraftlog.effects import LogFailed, LogOpened, LogPlaced
from kraftlog.errors import StorageError
from kraftlog.ports.logs import FutureLog
from kraftlog.records.header import read_header
from kraftlog.replication.quotas import NO_LIMIT, ByteRate
from kraftlog.runner.recovered_log import read_batches
from kraftlog.storage.batches import describe, split_by_epoch
from kraftlog.storage.disk import unlink_if_there
from kraftlog.storage.future_logs import WHOLE, mark_as_whole
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import TruncatePartition
    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.runner.data_directory import DataDirectory
    from kraftlog.storage.flush import FlushJob
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Now, Uuid

#: At most this much is copied in a turn, and at most this many logs at a time.
BYTES_PER_TURN = 256 << 10
MAX_CONCURRENT = 4
#: The setting with the throttle of all moves.
RATE_LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"


class CannotMoveError(Exception):
    """The copy cannot be completed; the log stays where it is."""


class LogMove(Value):
    """A log on its way to another directory."""

    name: LogName
    source: DataDirectory
    target: DataDirectory
    #: The log that is copied; another log may have its name by now.
    log: Log
    #: The copy, once begun, and the number of truncations that the log had at that time.
    copy: Log | None = None
    truncations: int = 0
    #: Whether a job is making the copy durable, and whether one has done so.
    is_flushing: bool = False
    is_durable: bool = False
    #: Whether the copy has all that the log has at the end of every turn, and is flushed with it.
    is_mirrored: bool = False
    #: Whether the mirrored copy is durable, and marked as whole.
    is_whole: bool = False
    #: Whether the controller was asked to record the target: the move can no longer be cancelled.
    is_reported: bool = False
    #: Where the log goes after this move.
    next_target: DataDirectory | None = None
    #: Why a mirrored copy no longer has what the log has.
    failure: StorageError | None = None

    @property
    def lag(self) -> int:
        """The number of offsets that are still to be copied."""
        copied = self.log.start_offset if self.copy is None else self.copy.end_offset
        return max(self.log.end_offset - copied, 0)


def is_recorded(node: Node, name: LogName, topic_id: Uuid, directory: Uuid) -> bool:
    """Whether the metadata names this directory for a replica, and nothing else is reported."""
    key = topic_id, name[1]
    image = node.image.partitions.get(key)
    return (
        image is not None
        and image.directory(node.config.node_id) == directory
        and node.replica_manager.directory_assignments.is_settled(key)
    )


class LogMoves:
    """The moves in the order in which they were requested; `done` is called after each.

    `moves` is for reading only. `kept` is called with a copy that has failed after it was reported:
    its folder stays until the metadata names the source.
    """

    def __init__(
        self,
        files: Files,
        io_thread: IOThread,
        log_line: Callable[[str], None],
        notify: Callable[[Any, Now], None],
        done: Callable[[LogMove], None],
        kept: Callable[[LogMove], None],
    ) -> None:
        self._files = files
        self._io_thread = io_thread
        self._log_line = log_line
        self._notify = notify
        self._done = done
        self._kept = kept
        self.moves: dict[LogName, LogMove] = {}
        self._copy_rate: ByteRate | None = None
        #: When copying may continue within the throttle; None if it may now.
        self.due_ms: int | None = None

    def futures(self) -> list[FutureLog]:
        """The copies, for DescribeLogDirs."""
        return [
            FutureLog(
                name,
                move.target.directory,
                0 if move.copy is None else move.copy.size_bytes,
                move.lag,
            )
            for name, move in self.moves.items()
        ]

    def begin(self, name: LogName, source: DataDirectory, target: DataDirectory) -> None:
        """Begin to move a log, or replace its present move.

        A reported move ends first: a restart might otherwise look for the log in its target.
        """
        current = self.moves.get(name)
        if current is not None and current.is_reported:
            current.next_target = target
        elif current is None or current.target is not target:
            self.cancel(name)
            if target is not source:
                self.moves[name] = LogMove(name, source, target, source.directory.logs[name])

    def cancel(self, name: LogName) -> None:
        """Cancel a move, if there is one: the log is deleted, or the move is not reported yet."""
        move = self.moves.pop(name, None)
        if move is not None:
            self._discard(move)

    def truncate(self, effect: TruncatePartition) -> None:
        """A log was truncated: so is a mirrored copy. Any other copy begins again."""
        move = self.moves.get(effect.log)
        if move is None or not move.is_mirrored or move.source.directory.is_offline:
            return
        assert move.copy is not None, "there is a copy that is mirrored"
        try:
            if effect.restarts:
                move.copy.truncate_fully_and_start_at(effect.offset)
            else:
                move.copy.truncate_to(move.log.end_offset)
        except StorageError as error:
            move.failure = error
        move.truncations = move.log.truncations

    def mirror_of(self, name: LogName) -> Log | None:
        """The copy that has to be durable whenever the log is."""
        move = self.moves.get(name) if self.moves else None
        return move.copy if move is not None and move.is_mirrored else None

    def mirror_failed(self, name: LogName, error: StorageError) -> None:
        """A mirrored copy could not be flushed with its log."""
        move = self.moves.get(name)
        if move is not None and move.is_mirrored:
            move.failure = error

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do."""
        is_idle = not self.moves or self.due_ms is not None
        return not is_idle and any(self._can_continue(move) for move in self._active())

    @staticmethod
    def _can_continue(move: LogMove) -> bool:
        if move.is_mirrored:
            return False  # it waits for a job, a flush or the controller: a turn follows each
        return not move.is_flushing or move.lag > 0

    def _active(self) -> list[LogMove]:
        return list(self.moves.values())[:MAX_CONCURRENT] if self.moves else []

    def take_turn(self, node: Node, now: Now) -> bool:
        """Run at the end of a turn: copy a piece; return whether any log is being moved."""
        if not self.moves:
            return False
        budget = self._budget(node, now)
        for move in self._active():
            try:
                budget = self._continue(move, node, budget, now)
            except (StorageError, CannotMoveError) as error:
                self._give_up(move, error, now)
        return True

    def _give_up(self, move: LogMove, error: Exception, now: Now) -> None:
        """End a move that has failed, and log why, unless a directory has failed."""
        name, source = move.name, move.source
        if not (source.directory.is_offline or move.target.directory.is_offline):
            self._log_line(f"{name[0]}-{name[1]} stays in {source.path}: {error}")
        if not move.is_reported:
            self.cancel(name)
            return
        del self.moves[name]
        self._keep(move)
        self._notify(LogPlaced(name, move.log.topic_id, source.directory.id), now)
        if move.next_target is not None and source.directory.logs.get(name) is move.log:
            self.begin(name, source, move.next_target)

    def _keep(self, move: LogMove) -> None:
        """Stop copying, but keep the folder until the metadata names the source.

        Until then it shows, after a restart, that the log in the source is the replica.
        """
        copy, move.copy = move.copy, None
        assert copy is not None, "a reported move has a copy"
        try:
            move.target.directory.keep_copy(move.name, copy)
        except StorageError as error:
            self._log_line(str(error))
        self._kept(move)

    def close(self) -> None:
        """Close the copies; their moves begin again at the next start."""
        for move in self.moves.values():
            if move.copy is not None:
                move.copy.release()

    def _budget(self, node: Node, now: Now) -> int:
        """How many bytes this turn may copy."""
        limit: int = node.config_layers().value(RATE_LIMIT)
        if limit == NO_LIMIT:
            self.due_ms = None
            return BYTES_PER_TURN
        if self._copy_rate is None:
            settings = node.config.settings
            self._copy_rate = ByteRate(
                settings.alter_log_dirs_replication_quota_window_num,
                1000 * settings.alter_log_dirs_replication_quota_window_size_seconds,
            )
        wait_ms = self._copy_rate.wait_ms(limit, now.monotonic_ms)
        self.due_ms = now.monotonic_ms + wait_ms if wait_ms else None
        return 0 if wait_ms else BYTES_PER_TURN

    # One move ------------------------------------------------------------------------------------

    def _continue(self, move: LogMove, node: Node, budget: int, now: Now) -> int:
        """Copy within the budget, and finish if all is copied; return the unused budget."""
        if move.source.directory.logs.get(move.name) is not move.log:
            raise CannotMoveError("the log was deleted")
        if move.is_mirrored:
            self._continue_mirrored(move, node, now)
            return budget
        move.source.directory.disk.check()
        if move.copy is not None and not self._follows(move, move.copy):
            if move.is_flushing:
                return budget
            self._discard(move)
        if move.copy is None:
            self._begin_copy(move, node)
        copy = move.copy
        assert copy is not None
        while budget > 0 and copy.end_offset < move.log.end_offset:
            budget -= self._copy_piece(move, copy, budget, now)
        if copy.end_offset == move.log.end_offset and not move.is_flushing:
            move.is_mirrored = move.is_durable
            self._make_durable(move, copy)
        return budget

    def _continue_mirrored(self, move: LogMove, node: Node, now: Now) -> None:
        """Copy what this turn has appended; report the copy, and finish once it is recorded."""
        copy, log, target = move.copy, move.log, move.target.directory
        assert copy is not None, "there is a copy that is mirrored"
        if move.failure is not None:
            raise move.failure
        target.disk.check()
        if not _follow_start(log, copy):
            self._start_at_first_batch(move, copy)
        while copy.end_offset < log.end_offset:
            self._copy_piece(move, copy, BYTES_PER_TURN, now)
        if not move.is_whole:
            return
        if not move.is_reported:
            move.is_reported = True
            self._notify(LogPlaced(move.name, copy.topic_id, target.id), now)
        elif is_recorded(node, move.name, copy.topic_id, target.id) and self._may_take_over(move):
            self._take_over(move, copy, node, now)

    @staticmethod
    def _follows(move: LogMove, copy: Log) -> bool:
        """Whether the copy can continue; move its start to that of the log.

        After a truncation of the log, or if its start is beyond the copy's end, the copy begins
        again, which is simple and rare.
        """
        return move.log.truncations == move.truncations and _follow_start(move.log, copy)

    def _begin_copy(self, move: LogMove, node: Node) -> None:
        log, directory = move.log, move.target.directory
        unique = node.config.new_id().hex()
        move.copy = directory.create_future(move.name, log, unique)
        self._start_at_first_batch(move, move.copy)

    @staticmethod
    def _start_at_first_batch(move: LogMove, copy: Log) -> None:
        """Empty the copy; it starts where the log does."""
        log = move.log
        move.truncations = log.truncations
        first_batch = read_batches(log, log.start_offset, log.end_offset, 1)
        start = read_header(first_batch).base_offset if first_batch else log.start_offset
        copy.truncate_fully_and_start_at(start)

    def _copy_piece(self, move: LogMove, copy: Log, size: int, now: Now) -> int:
        """Copy some batches; return their size."""
        log = move.log
        data = read_batches(log, copy.end_offset, log.end_offset, size)
        if not data:
            raise CannotMoveError(f"there are no batches from offset {copy.end_offset} on")
        for batches in split_by_epoch(data):
            copy.append([batches], describe([batches]), now.wall_ms)
        if self._copy_rate is not None:
            self._copy_rate.record(len(data), now.monotonic_ms)
        return len(data)

    def _make_durable(self, move: LogMove, copy: Log) -> None:
        """Flush the copy; mark it as whole if it is mirrored."""
        copy.epochs = move.log.epochs.copy()
        copy.epochs_rebuilt()
        job = copy.flush_job()
        assert job is not None, "at least the epochs are to be written"
        move.is_flushing, is_mirrored = True, move.is_mirrored

        def run() -> None:
            job.run(self._files)
            if job.error is None and is_mirrored:
                mark_as_whole(self._files, copy.folder)

        self._io_thread.submit(
            run, lambda _, error, now: self._flushed(move, copy, job, error, now)
        )

    def _flushed(
        self, move: LogMove, copy: Log, job: FlushJob, error: BaseException | None, now: Now
    ) -> None:
        move.is_flushing = False
        try:
            copy.flushed(job)
            if move.copy is not copy:
                return  # the copy was discarded, and its flush may have failed for that reason
            if isinstance(error, OSError):
                raise move.target.directory.disk.fail_unless_full(
                    f"{copy.folder}: moving the log", error
                )
        except StorageError as failure:
            self._give_up(move, failure, now)
            return
        if error is not None:
            raise error
        move.is_whole, move.is_durable = move.is_mirrored, True

    def _may_take_over(self, move: LogMove) -> bool:
        """Whether no job uses the log's files, and the name that the copy will take is free."""
        if move.log.is_flushing or move.source.maintenance.is_moving_start(move.name):
            return False
        return not self._files.exists(move.target.directory.folder(move.name))

    def _take_over(self, move: LogMove, copy: Log, node: Node, now: Now) -> None:
        """Replace the log by its copy, and delete the log."""
        name, log, source, target = move.name, move.log, move.source, move.target
        copy.epochs = log.epochs.copy()
        copy.epochs_rebuilt()
        if copy.recovery_point < log.recovery_point:
            copy.flush()  # the last few records, which may be acknowledged as durable
        copy.config = log.config
        copy.tracker.state = log.tracker.state.copy()  # also producers whose records are gone
        if log.start_offset > copy.start_offset:
            copy.move_start(log.start_offset)
        target.directory.adopt_future(name, copy)  # first: it may fail, and then the log stays
        has_folder = source.directory.forget(name)
        partition = node.replica_manager.by_log.get(name)
        high_watermark = 0 if partition is None else partition.high_watermark
        target.directory.note_high_watermark(name, high_watermark)
        del self.moves[name]
        self._done(move)
        target.maintenance.store_start(name)

        def synced(_: Any, error: BaseException | None, now: Now) -> None:
            if isinstance(error, OSError):
                failure = target.directory.disk.fail_unless_full(
                    f"{copy.folder}: moving the log", error
                )
                self._log_line(str(failure))
                self._notify(LogFailed(name, copy.topic_id, str(failure)), now)
            elif error is not None:
                raise error
            elif has_folder:
                source.lifecycle.delete_folder(name, copy.topic_id)

        path, mark = target.path, f"{copy.folder}/{WHOLE}"

        def sync() -> None:
            self._files.sync_folder(path)
            unlink_if_there(self._files, mark)

        self._io_thread.submit(sync, synced)
        if partition is not None and not partition.is_open:
            self._notify(_reopened(name, copy, high_watermark, target.directory.id), now)

    def _discard(self, move: LogMove) -> None:
        """Delete the copy; a flush in progress does no harm."""
        copy, move.copy, move.is_durable = move.copy, None, False
        if copy is None:
            return
        try:
            move.target.directory.discard_future(copy)
        except StorageError as error:
            self._log_line(str(error))


def _follow_start(log: Log, copy: Log) -> bool:
    """Move the start of a copy to that of the log; False if all that it has is before that."""
    if log.start_offset > copy.end_offset:
        return False
    if log.start_offset > copy.start_offset and copy.segments:
        copy.move_start(log.start_offset)
    return True


def _reopened(name: LogName, copy: Log, high_watermark: int, directory: Uuid) -> LogOpened:
    """The source has failed after the copy was reported: the copy takes the log's place."""
    producers = None if copy.tracker.is_empty else copy.producers.copy()
    start, end = copy.start_offset, copy.end_offset
    return LogOpened(name, copy.topic_id, start, end, producers, high_watermark, directory)

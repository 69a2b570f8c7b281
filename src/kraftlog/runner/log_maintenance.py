"""Maintenance of a log directory.

Retention, flushes, checkpoints and the deletion of files are periodic; log starts are moved and
large producer snapshots are written on request. Blocking work runs in an I/O thread. The monotonic
clock schedules the work; the wall clock gives the age of records, so a clock that jumps back only
delays deletion.
"""

from __future__ import annotations

from collections import deque

from kraftlog.effects import LogFailed, LogStartMoved, LogStartNotStored
from kraftlog.errors import DiskFullError, StorageError
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.strays import Strays
from kraftlog.steps import result_of
from kraftlog.storage.checkpoints import LINES_PER_STEP
from kraftlog.storage.garbage import unlink_garbage
from kraftlog.storage.producer_snapshots import encode_entries_in_steps
from kraftlog.storage.reserve import is_full
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.storage.offset_checkpoints import CheckpointJob
    from kraftlog.storage.producer_tracker import QueuedSnapshot
    from kraftlog.types import LogName, Now

    Starts = list[tuple[LogName, Log, int]]

#: Kafka's log.flush.offset.checkpoint.interval.ms.
INTERVAL_MS = 60_000
#: How many logs a turn checks for expired segments; removing a segment costs as much as
#: `SEGMENT_COST` checks.
CHECKED_PER_TURN = 50
SEGMENT_COST = 5
#: How many log starts a turn moves (each may rename and create files), how long it may take for
#: that, and how many of them it reports to the node.
MOVED_PER_TURN = 4
MOVED_FOR_NS = 1_000_000
REPORTED_PER_TURN = 200
#: How many steps of encoding the checkpoint files a turn takes.
STEPS_PER_TURN = 4
#: How many files and folders one job deletes, so that other jobs get their turn.
MAX_UNLINKED = 64


class LogMaintenance:
    """Runs a log directory's maintenance, which is next due at `due_ms` on the monotonic clock."""

    def __init__(
        self,
        files: Files,
        directory: LogDirectory,
        io_thread: IOThread,
        flushes: Flushes,
        metadata_flushes: Flushes,
        log_line: Callable[[str], None],
        notify: Callable[[Any, Now], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._io_thread = io_thread
        self._flushes = flushes
        self._metadata_flushes = metadata_flushes
        self._log_line = log_line
        self._notify = notify
        self._checkpoint_due_ms = 0
        #: When the high watermarks are stored next, if any has moved.
        self._high_watermarks_due_ms = 0
        #: The number of moves of high watermarks at the last checkpoint.
        self._stored_moves = 0
        #: When to check retention; None until the first turn sets it.
        self._retention_due_ms: int | None = None
        #: Logs that are still to be checked for expired segments.
        self._to_check: list[LogName] = []
        #: Whether a checkpoint is being encoded or written.
        self._is_writing = False
        #: Files and folders to delete, and whether a job is deleting some of them.
        self._garbage: list[str] = []
        self._is_unlinking = False
        self._strays = Strays(directory, log_line)
        #: Logs whose start has moved and is to be stored soon, because a request waits for it.
        self._unstored_starts: set[LogName] = set()
        #: Logs whose start is being stored.
        self._starts_being_stored: set[LogName] = set()
        #: Log starts to move; each may cost several file operations.
        self._starts_to_move: deque[tuple[LogName, Log, int]] = deque()
        #: Reports for the node about log starts.
        self._reports: deque[LogStartMoved | LogStartNotStored | LogFailed] = deque()
        #: Large producer snapshots that are still to be written; the first one is written in steps.
        self._queued_snapshots: deque[tuple[LogName, Log, QueuedSnapshot]] = deque()
        self._snapshot_steps: Generator[None, None, bytes] | None = None
        #: The steps of the checkpoint that is being encoded.
        self._checkpoint_steps: Generator[None, None, None] | None = None

    @property
    def due_ms(self) -> int:
        due_ms = min(self._checkpoint_due_ms, self._high_watermarks_due_ms)
        retention_due_ms = self._retention_due_ms
        return due_ms if retention_due_ms is None else min(due_ms, retention_due_ms)

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do."""
        return bool(
            self._to_check
            or self._starts_to_move
            or self._reports
            or self._checkpoint_steps
            or self._queued_snapshots
        )

    def queue_snapshots(self, name: LogName, log: Log) -> None:
        """Queue the producer snapshots of a rolled segment that are too large for one turn."""
        for snapshot in log.tracker.queued:
            if not snapshot.is_scheduled:
                snapshot.is_scheduled = True
                self._queued_snapshots.append((name, log, snapshot))

    def move_start(self, name: LogName, offset: int) -> None:
        """Move the log start; once it is durable, or has failed, the node gets a report."""
        log = self._directory.logs.get(name)
        if log is not None:
            self._starts_to_move.append((name, log, offset))

    def is_moving_start(self, name: LogName) -> bool:
        """Whether the start of this log is still to be moved or stored."""
        return (
            name in self._unstored_starts
            or name in self._starts_being_stored
            or any(moving == name for moving, _, __ in self._starts_to_move)
        )

    def store_start(self, name: LogName) -> None:
        """Soon store the start of a log that was moved to this directory."""
        self._unstored_starts.add(name)

    def take_turn(self, node: Node, now: Now) -> bool:
        """Run at the end of a turn; return whether anything was due."""
        if not (self._unstored_starts or self.has_work or now.monotonic_ms >= self.due_ms):
            return False
        self._continue_moving_starts(node, now)
        if self._unstored_starts and not self._starts_to_move:  # one checkpoint covers all of them
            self._store_starts(node, now)
        if self._to_check or now.monotonic_ms >= self.due_ms:
            self._run_due(node, now)
        self._continue_checkpoint()
        self._continue_reporting(now)
        self._write_next_snapshot()
        return True

    def _run_due(self, node: Node, now: Now) -> None:
        is_online = self._directory.disk.failure is None
        if now.monotonic_ms >= self._high_watermarks_due_ms:
            interval_ms = node.config.settings.replica_high_watermark_checkpoint_interval_ms
            self._high_watermarks_due_ms = now.monotonic_ms + max(interval_ms, 1)
            moves = node.replica_manager.high_watermark_moves
            if is_online and moves != self._stored_moves:
                self._stored_moves = moves
                self._checkpoint(node)
        if now.monotonic_ms >= self._checkpoint_due_ms:
            self._checkpoint_due_ms = now.monotonic_ms + INTERVAL_MS
            if is_online:
                self._flush_sealed()
                self._checkpoint(node)
                self._garbage += self._strays.delete_due(node, now)
                self._unlink()
        self._begin_retention(node, now)
        if is_online:
            self._continue_retention(node, now)
        else:
            self._to_check.clear()  # the disk has failed

    # Retention -----------------------------------------------------------------------------------

    def _begin_retention(self, node: Node, now: Now) -> None:
        settings = node.config.settings
        if self._retention_due_ms is None:
            self._retention_due_ms = now.monotonic_ms + settings.log_initial_task_delay_ms
        if now.monotonic_ms >= self._retention_due_ms:
            interval_ms = settings.log_retention_check_interval_ms
            self._retention_due_ms = now.monotonic_ms + interval_ms
            # A log without segments has nothing to delete.
            self._to_check = [
                name
                for name, log in self._directory.logs.items()
                if log.segments and name != METADATA_LOG
            ]

    def _continue_retention(self, node: Node, now: Now) -> None:
        if not self._to_check:
            return
        expiration_ms = node.config_layers().value("producer.id.expiration.ms")
        budget = CHECKED_PER_TURN
        while budget > 0 and self._to_check:
            name = self._to_check.pop()
            budget -= 1
            log = self._directory.logs.get(name)
            partition = node.replica_manager.by_log.get(name)
            if log is not None and partition is not None and partition.is_open:
                log.tracker.high_watermark_moved(partition.high_watermark)
                log.tracker.expire(now.wall_ms, expiration_ms)
                budget -= SEGMENT_COST * self._delete_expired(
                    name, log, partition.high_watermark, now
                )

    def _delete_expired(self, name: LogName, log: Log, limit: int, now: Now) -> int:
        """Delete expired segments; return how many. A log with more of them is checked again."""
        start, removed = log.start_offset, 0
        max_segments = max(CHECKED_PER_TURN // SEGMENT_COST, 1)
        try:
            removed = self._directory.reserve.use_for(
                lambda: log.delete_old_segments(now.wall_ms, limit, max_segments)
            )
        except DiskFullError as error:
            self._log_line(str(error))
        except StorageError as error:
            self._log_line(str(error))
            self._notify(LogFailed(name, log.topic_id, str(error)), now)
            return 0
        if log.start_offset > start:
            self._notify(LogStartMoved(name, log.topic_id, log.start_offset, is_stored=False), now)
        if removed == max_segments:
            self._to_check.append(name)
        return removed

    # Log starts ----------------------------------------------------------------------------------

    def _continue_moving_starts(self, node: Node, now: Now) -> None:
        began_ns = node.config.stopwatch_ns()
        for _ in range(min(MOVED_PER_TURN, len(self._starts_to_move))):
            if node.config.stopwatch_ns() - began_ns > MOVED_FOR_NS:
                return
            name, log, offset = self._starts_to_move.popleft()
            if self._directory.logs.get(name) is not log:
                continue  # deleted meanwhile; another log may have its name by now
            if offset > log.end_offset:
                continue  # truncated meanwhile
            try:
                log.move_start(offset)
            except DiskFullError as error:
                self._log_line(str(error))  # the old segments are deleted later
            except StorageError as error:
                self._log_line(str(error))
                self._notify(LogFailed(name, log.topic_id, str(error)), now)
                continue
            self._unstored_starts.add(name)

    def _continue_reporting(self, now: Now) -> None:
        for _ in range(min(REPORTED_PER_TURN, len(self._reports))):
            self._notify(self._reports.popleft(), now)

    # Files ---------------------------------------------------------------------------------------

    def _flush_sealed(self) -> None:
        """Flush sealed segments, so that recovery need not read them."""
        for name, log in self._directory.logs.items():
            if log.segments and log.recovery_point < log.segments[-1].base_offset:
                flushes = self._metadata_flushes if name == METADATA_LOG else self._flushes
                flushes.request(name, log.segments[-1].base_offset)

    def _store_starts(self, node: Node, now: Now) -> None:
        failure = self._directory.disk.failure
        if failure is None:
            self._checkpoint(node)
        else:
            self._report_not_stored(self._starts_to_store(), failure, now)

    def _checkpoint(self, node: Node) -> None:
        if not self._is_writing:
            self._is_writing = True
            self._checkpoint_steps = self._checkpoint_in_steps(node)

    def _continue_checkpoint(self) -> None:
        for _ in range(STEPS_PER_TURN if self._checkpoint_steps is not None else 0):
            assert self._checkpoint_steps is not None, "there are more steps"
            try:
                next(self._checkpoint_steps)
            except StopIteration:
                self._checkpoint_steps = None
                return

    def _write_next_snapshot(self) -> None:
        """Write the first queued producer snapshot, in steps; it only shortens recovery."""
        if not self._queued_snapshots:
            return
        name, log, snapshot = self._queued_snapshots[0]
        if self._directory.logs.get(name) is not log or snapshot not in log.tracker.queued:
            self._queued_snapshots.popleft()
            self._snapshot_steps = None
            return
        if self._snapshot_steps is None:
            self._snapshot_steps = encode_entries_in_steps(snapshot.entries)
        try:
            for _ in range(STEPS_PER_TURN):
                next(self._snapshot_steps)
        except StopIteration as stop:
            self._queued_snapshots.popleft()
            self._snapshot_steps = None
            self._write_snapshot(log, snapshot, stop.value)

    def _write_snapshot(self, log: Log, snapshot: QueuedSnapshot, data: bytes) -> None:
        try:
            path = log.tracker.write_queued(snapshot, data)
        except OSError as error:
            failure = self._directory.disk.fail_unless_full(
                f"{log.folder}: writing producers", error
            )
            self._log_line(str(failure))
        else:
            log.mark_created(path)

    def note_high_watermarks(self, node: Node) -> None:
        """Note all high watermarks, for the checkpoint of a clean shutdown."""
        result_of(self._note_high_watermarks_in_steps(node))

    def _note_high_watermarks_in_steps(self, node: Node) -> Generator[None, None, None]:
        for number, (name, partition) in enumerate(list(node.replica_manager.by_log.items()), 1):
            is_open = name in self._directory.logs and partition.is_open
            if is_open and node.replica_manager.by_log.get(name) is partition:
                self._directory.note_high_watermark(name, partition.high_watermark)
            if not number % LINES_PER_STEP:
                yield

    def _checkpoint_in_steps(self, node: Node) -> Generator[None, None, None]:
        starts = self._starts_to_store()
        self._starts_being_stored = {name for name, _, __ in starts}
        yield from self._note_high_watermarks_in_steps(node)
        job = yield from self._directory.checkpoint_job_in_steps()

        def written(_: Any, error: BaseException | None, now: Now) -> None:
            self._checkpointed(job, starts, error, now)

        self._io_thread.submit(lambda: job.run(self._files), written)

    def _stop_writing(self) -> None:
        self._is_writing = False
        self._starts_being_stored = set()

    def _starts_to_store(self) -> Starts:
        moved, self._unstored_starts = self._unstored_starts, set()
        logs = self._directory.logs
        return [
            (name, logs[name], logs[name].start_offset) for name in sorted(moved) if name in logs
        ]

    def _checkpointed(
        self, job: CheckpointJob, starts: Starts, error: BaseException | None, now: Now
    ) -> None:
        if error is not None:
            raise error  # a job reports disk errors itself: this one is a bug
        try:
            is_installed = self._directory.install_checkpoints(job)
        except StorageError as failure:
            self._stop_writing()
            if is_full(failure) and self._directory.reserve.spend():
                self._unstored_starts.update([name for name, _, __ in starts])
                return
            self._log_line(str(failure))
            self._report_not_stored(starts, failure, now)
            return
        if is_installed:
            folder = self._directory.path
            self._io_thread.submit(
                lambda: self._files.sync_folder(folder),
                lambda _, error, now: self._checkpoints_synced(job, starts, error, now),
            )
        else:
            self._stop_writing()
            self._unstored_starts.update([name for name, _, __ in starts])

    def _checkpoints_synced(
        self, job: CheckpointJob, starts: Starts, error: BaseException | None, now: Now
    ) -> None:
        self._stop_writing()
        if isinstance(error, OSError):
            failure = self._directory.disk.fail_unless_full(
                f"{self._directory.path}: syncing", error
            )
            self._log_line(str(failure))
            self._report_not_stored(starts, failure, now)
            return
        if error is not None:
            raise error
        self._directory.checkpoints_durable(job)
        for name, log, start in starts:
            is_same = self._directory.logs.get(name) is log  # not a newer log of that name
            if is_same and start <= log.start_offset:  # not truncated below its start
                self._reports.append(LogStartMoved(name, log.topic_id, start, is_stored=True))
        self._continue_reporting(now)

    def _report_not_stored(self, starts: Starts, why: StorageError, now: Now) -> None:
        """Report that log starts were not stored; on a full disk, the next checkpoint retries."""
        for name, log, _ in starts:
            if self._directory.logs.get(name) is not log:
                continue
            if isinstance(why, DiskFullError):
                self._reports.append(LogStartNotStored(name, log.topic_id))
            else:
                self._reports.append(LogFailed(name, log.topic_id, str(why)))
        self._continue_reporting(now)

    def _unlink(self) -> None:
        """Delete in small jobs, as checkpoints and a shutdown wait for the same I/O thread."""
        self._garbage += self._directory.take_garbage()
        if self._garbage and not self._is_unlinking:
            self._is_unlinking = True
            paths = self._garbage[:MAX_UNLINKED]
            del self._garbage[:MAX_UNLINKED]
            self._io_thread.submit(lambda: unlink_garbage(self._files, paths), self._unlinked)

    def _unlinked(self, _: Any, error: BaseException | None, now: Now) -> None:  # noqa: ARG002 - the signature of a callback
        """Delete the next files; those that could not be deleted are found at the next start."""
        self._is_unlinking = False
        if isinstance(error, OSError):
            self._log_line(f"removing deleted files: {error}")
        elif error is not None:
            raise error
        self._unlink()

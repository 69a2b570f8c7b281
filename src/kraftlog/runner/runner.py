"""Runs a node: carries out its effects, in the server and in the simulator alike.

A turn has a fixed order. First the node continues the requests that it serves in slices. Then the
records that requests appended are written, one call per partition, and the node completes their
responses. Then all effects are carried out in order, including those that follow from others. Then
maintenance continues. Then the flushes that something waits for start in I/O threads. The host
sends responses after the turn.
"""

from __future__ import annotations

from collections import deque

from kraftlog.effects import (
    LogFailed,
    LogFlushed,
    LogLine,
    LogRead,
    LogUnreadable,
    MoveLogStart,
    ReadLog,
    SendResponse,
)
from kraftlog.errors import CorruptBatchError, DiskFullError, StorageError
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.data_directories import DataDirectories
from kraftlog.runner.data_directory import DirectoryServices
from kraftlog.runner.flushes import Flushes
from kraftlog.runner.logs import Logs
from kraftlog.runner.quorum_io import SEGMENT_BYTES, NodeStoppedError, QuorumIO
from kraftlog.runner.recovered_log import read_batches
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThreads
    from kraftlog.ports.peers import Peers
    from kraftlog.ports.worker_process import WorkerProcess
    from kraftlog.replication.partition import PartitionAppend
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Now

#: Bytes replayed in a turn, some ten milliseconds of work, so that peers get responses in between:
#: they may need the vote of a controller that has just started.
REPLAY_BYTES_PER_TURN = 32 << 10


def _unaccounted(_: str) -> object:
    """The default for `step`."""


class Runner:
    """Carries out one node's effects.

    `log_line` logs a line for the operator. `step` is called at the end of each part of a turn with
    its name, so that a host can account for the time. The node needs `logs` of the runner, so it is
    made later and passed to `set_node`.
    """

    node: Node

    def __init__(
        self,
        files: Files,
        directory: LogDirectory,
        io_threads: IOThreads,
        worker: WorkerProcess,
        peers: Peers,
        log_line: Callable[[str], None],
        step: Callable[[str], object] = _unaccounted,
        *,
        directories: Sequence[LogDirectory] = (),
        lost: Sequence[str] = (),
        metadata_segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """`directory` has the metadata log; by default, it is the only one of `directories`.

        `lost`: directories that could not be opened; replicas in them are offline.
        """
        #: The directory with the metadata log.
        self.directory = directory
        self._step = step
        self.logs = Logs(files, directories or [directory], directory, lost)
        self._log_line = log_line
        self._flushes = Flushes(
            files, self.logs, io_threads.data, self._flushed, self._flush_failed
        )
        self._metadata_flushes = Flushes(
            files, self.logs, io_threads.quorum, self._flushed, self._flush_failed
        )
        self._directories = DataDirectories(
            directories or [directory],
            directory,
            DirectoryServices(
                files=files,
                io_threads=io_threads,
                worker=worker,
                flushes=self._flushes,
                metadata_flushes=self._metadata_flushes,
                log_line=log_line,
                notify=self._notify,
                step=step,
            ),
            lost,
        )
        moves = self._directories.moves
        self.logs.list_futures = moves.futures
        self._directories.on_replaced = self._replaced
        self._flushes.mirror_of, self._flushes.mirror_failed = moves.mirror_of, moves.mirror_failed
        self._quorum = QuorumIO(
            files,
            directory,
            io_threads.quorum,
            self._metadata_flushes,
            peers,
            log_line,
            self._notify,
            metadata_segment_bytes,
            others=[other.path for other in directories if other is not directory],
        )
        #: Logs whose last append failed on a full disk, which is logged once.
        self._logged_full: set[LogName] = set()
        #: Pending replay reads of all logs, one chunk a turn.
        self._reads: deque[tuple[ReadLog, Log | None]] = deque()
        self._carry_out: dict[type, Callable[[Any, Now], None]] = {
            **self._directories.carry_out,
            ReadLog: self._queue_read,
            SendResponse: self._reply,
            LogLine: lambda effect, _: log_line(effect.line),
            **self._quorum.carry_out,
            MoveLogStart: self._move_start,
        }

    def set_node(self, node: Node) -> None:
        self.node = node
        self._directories.cordoned = node.cordoned_directories.ids

    def finish_turn(self, now: Now) -> None:
        """Carry out everything that the requests and messages of this turn require."""
        if self.node.sliced.finish_turn():
            self._step("sliced requests")
        while self.node.has_work:
            for append in self.node.replica_manager.take_turn():
                self._write(append, now)
            for effect in self.node.take_effects():
                self._carry_out[type(effect)](effect, now)
                self._step(type(effect).__name__)
        self._maintain(now)
        for flushes in (self._metadata_flushes, self._flushes):
            flushes.start(now)
            if flushes.obstacle is not None:
                self._log_line(f"flushes are blocked: {flushes.obstacle}")
                flushes.obstacle = None
        self._directories.check(self.node, now)

    def _maintain(self, now: Now) -> None:
        """Continue the maintenance that takes several turns, and start what is due."""
        self._directories.maintain(self.node, now)
        if self._reads:
            self._continue_reading(now)
            self._step("replay")
        if self._quorum.resume():
            self._step("snapshot")

    def deadline(self) -> int:
        """When the next turn has something to do, in monotonic milliseconds."""
        return self._directories.deadline()

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do without any request."""
        return bool(
            self._directories.has_work
            or self._reads
            or self._quorum.has_work
            or self.node.sliced.has_work
        )

    def close(self) -> None:
        """Shut down cleanly: make everything durable, and leave the marker of a clean shutdown."""
        lifecycle = self.node.broker_lifecycle
        self._directories.close(self.node, -1 if lifecycle is None else lifecycle.last_epoch)

    def abandon(self) -> None:
        """Stop after a failure without writing; the next start recovers the logs."""
        self._directories.release()

    # Appends -------------------------------------------------------------------------------------

    def _write(self, append: PartitionAppend, now: Now) -> None:
        if append not in append.partition.unwritten:
            return  # it follows an append of this turn that has failed
        try:
            end = self.logs.append(append, now.wall_ms)
        except DiskFullError as error:
            if append.partition.log not in self._logged_full:
                self._logged_full.add(append.partition.log)
                self._log_line(str(error))
            directory = self._directories.directory_of(append.partition.log)
            directory.writability.write_failed(error, now)
            self.node.replica_manager.undo(append)
            return
        except StorageError as error:
            self._log_line(str(error))
            self.node.replica_manager.write_failed(append.partition)
            return
        finally:
            # The append may be kept for long; its receive buffers are reused.
            append.buffers.clear()
        if self._logged_full:
            self._logged_full.discard(append.partition.log)
        self._written(append, end)

    def _written(self, append: PartitionAppend, end: int) -> None:
        """Report a write to the node: at once, or once it is durable if flush.messages says so."""
        partition = append.partition
        log = self.logs[partition.log]
        if log.segments[-1].size == append.size:
            self._step("roll")
            if log.tracker.queued:
                maintenance = self._directories.directory_of(partition.log).maintenance
                maintenance.queue_snapshots(partition.log, log)
        if end - log.recovery_point < log.config.flush_messages:
            self.node.replica_manager.written(partition, end)
        else:
            self._flushes.hold(
                partition.log, end, lambda: self.node.replica_manager.written(partition, end)
            )

    # Effects -------------------------------------------------------------------------------------

    def _move_start(self, effect: MoveLogStart, now: Now) -> None:
        if effect.log != METADATA_LOG:
            self._directories.carry_out[MoveLogStart](effect, now)
            return
        log = self.directory.logs.get(effect.log)
        if log is None:
            return
        try:
            self.directory.reserve.use_for(lambda: log.move_start(effect.offset))
        except DiskFullError as error:
            self._log_line(str(error))  # the old files are deleted later
        except StorageError as error:
            self._log_line(str(error))
            self.node.handle(LogFailed(effect.log, log.topic_id, str(error)), now)
            return
        self._quorum.remove_old_snapshots()

    def is_reading(self, log: LogName) -> bool:
        """Whether a part of a log will be read."""
        return any(effect.log == log for effect, _ in self._reads)

    def _queue_read(self, effect: ReadLog, now: Now) -> None:  # noqa: ARG002 - effects are carried out alike
        self._reads.append((effect, self.logs.get(effect.log)))

    def _replaced(self, original: Log, copy: Log) -> None:
        """A log was moved to another directory: its pending reads go to the copy."""
        for index, (effect, log) in enumerate(self._reads):
            if log is original:
                self._reads[index] = effect, copy

    def _continue_reading(self, now: Now) -> None:
        if self._reads:
            effect, log = self._reads.popleft()
            if self.logs.get(effect.log) is not log:
                return  # deleted meanwhile; another log may have its name by now
            report: LogRead | LogUnreadable = LogRead(effect.log, effect.offset, b"")
            if log is not None:
                try:
                    data = read_batches(log, effect.offset, effect.limit, REPLAY_BYTES_PER_TURN)
                    report = LogRead(effect.log, effect.offset, data)
                except (StorageError, CorruptBatchError) as error:
                    report = LogUnreadable(effect.log, effect.offset, str(error))
            self.node.handle(report, now)

    def _reply(self, effect: SendResponse, now: Now) -> None:  # noqa: ARG002 - effects are carried out alike
        effect.pending.respond(effect.response)

    def _flushed(self, log: LogName, offset: int, now: Now) -> None:
        self.node.handle(LogFlushed(log, offset), now)

    def _notify(self, report: Any, now: Now) -> None:
        self.node.handle(report, now)

    def _flush_failed(self, log: LogName, error: StorageError, now: Now) -> None:
        if log == METADATA_LOG:
            raise NodeStoppedError(str(error)) from error
        self._log_line(str(error))
        self.node.handle(LogFailed(log, self.logs[log].topic_id, str(error)), now)

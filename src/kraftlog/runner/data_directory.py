"""Opens, deletes, maintains and compacts the logs of one log directory."""

from __future__ import annotations

from collections import deque

from kraftlog.effects import LogFailed
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.compaction import Compactions
from kraftlog.runner.disk_space import DiskSpace
from kraftlog.runner.log_lifecycle import LogLifecycle
from kraftlog.runner.log_maintenance import LogMaintenance
from kraftlog.runner.new_folders import NewFolders
from kraftlog.runner.writability import Writability
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThreads
    from kraftlog.ports.worker_process import WorkerProcess
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.types import LogName, Now

#: How many logs of a failed directory are reported in one turn.
FAILED_PER_TURN = 200


class DirectoryServices(Value):
    """Dependencies of all log directories; `step` accounts for the time of a part of a turn."""

    files: Files
    io_threads: IOThreads
    worker: WorkerProcess
    flushes: Flushes
    metadata_flushes: Flushes
    log_line: Callable[[str], None]
    notify: Callable[[Any, Now], None]
    step: Callable[[str], object]


class DataDirectory:
    """Runs one log directory; `lifecycle` and `maintenance` carry out the effects for its logs."""

    def __init__(
        self,
        directory: LogDirectory,
        services: DirectoryServices,
        is_moving: Callable[[LogName], bool],
    ) -> None:
        """`is_moving`: whether a log is being copied to another directory."""
        self.directory = directory
        self._step = services.step
        self._log_line = services.log_line
        self._notify = services.notify
        files, flushes, threads = services.files, services.flushes, services.io_threads
        log_line, notify = services.log_line, services.notify
        new_folders = NewFolders(directory, log_line, notify)
        self._new_folders = new_folders
        self.lifecycle = LogLifecycle(directory, flushes, new_folders, log_line, notify)
        self.maintenance = LogMaintenance(
            files,
            directory,
            threads.maintenance,
            flushes,
            services.metadata_flushes,
            log_line,
            notify,
        )
        self._disk_space = DiskSpace(directory, log_line)
        self.writability = Writability(files, directory, threads.maintenance, flushes, log_line)
        self.lifecycle.on_full = self.writability.write_failed
        self._compactions = Compactions(
            files,
            directory,
            threads.maintenance,
            services.worker,
            flushes,
            log_line,
            notify,
            is_moving,
        )
        self.path = directory.path
        self._logged_offline = False
        #: The logs of a failed directory that are yet to be reported.
        self._failed: deque[LogFailed] = deque()

    def maintain(self, node: Node, now: Now) -> None:
        """Continue the maintenance that takes several turns, and start what is due."""
        self._disk_space.take_turn(now)
        if self.lifecycle.resume(now):
            self._step("open")
        if self._new_folders.take_turn(now):
            self._step("new folders")
        if self.maintenance.take_turn(node, now):
            self._step("retention and checkpoints")
        if self._compactions.take_turn(node, now):
            self._step("compaction")

    def check(self, node: Node, now: Now, *, fails_its_logs: bool) -> None:
        """Check whether the directory can be written; if it has failed, log that once.

        `fails_its_logs`: report all its logs as failed now, instead of each at its next use.
        """
        self.writability.take_turn(node, now)
        failure = self.directory.disk.failure
        if failure is not None and not self._logged_offline:
            self._logged_offline = True
            path = self.directory.path
            self._log_line(f"{path}: offline until the node is restarted: {failure}")
            if fails_its_logs:
                self._failed += [
                    LogFailed(name, log.topic_id, str(failure))
                    for name, log in self.directory.logs.items()
                    if name != METADATA_LOG
                ]
        if self._failed:
            for _ in range(min(FAILED_PER_TURN, len(self._failed))):
                self._notify(self._failed.popleft(), now)

    def deadline(self) -> int:
        """When the next turn has something to do, in monotonic milliseconds."""
        optional = (
            self.lifecycle.due_ms,
            self._new_folders.due_ms,
            self._disk_space.due_ms,
            self.writability.due_ms,
        )
        due_ms = [time_ms for time_ms in optional if time_ms is not None]
        return min(self.maintenance.due_ms, self._compactions.due_ms, *due_ms)

    @property
    def has_work(self) -> bool:
        return bool(
            self.lifecycle.has_work
            or self._new_folders.has_work
            or self.maintenance.has_work
            or self._compactions.has_work
            or self._failed
        )

    def close(self, node: Node, broker_epoch: int) -> None:
        """Shut down cleanly: make everything durable, and leave the marker of a clean shutdown."""
        self._compactions.close()
        self.maintenance.note_high_watermarks(node)
        self.lifecycle.close()
        self.directory.close(broker_epoch)

"""Whether the records of a log directory can be written at present: `disk.is_unwritable`.

They cannot while the disk is full, or while a sync that requests wait for (`flush.messages`) hangs.
Nothing is lost then, and the directory stays online; but its leaders could acknowledge nothing. So
the broker reports the directory to the controller, which elects other leaders where it can.

The directory counts as writable again if no write has failed for some seconds and an I/O thread can
write and sync a probe, a file with some blocks. If writes fail again soon after that, the next
recovery takes longer, so that leaders do not move back and forth.
"""

from __future__ import annotations

from kraftlog.backoff import Backoff
from kraftlog.errors import DiskFullError
from kraftlog.storage.disk import NO_DESCRIPTOR, unlink_if_there, write_all
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.types import Now

PROBE = "kraftlog-probe"
#: The blocks that a probe needs: more than a full disk frees by chance.
PROBE_BYTES = 1 << 20
#: How long no write must have failed, first and at most.
CALM_MS, LONGEST_CALM_MS = 10_000, 300_000
#: How long to wait after a probe that failed.
PROBE_AGAIN_MS = 10_000


def lacks_space(error: DiskFullError) -> bool:
    """Whether there was no space; otherwise there was no file descriptor."""
    return not (isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_DESCRIPTOR)


class Writability:
    """Watches the writes of one log directory; only it sets `disk.is_unwritable`."""

    def __init__(
        self,
        files: Files,
        directory: LogDirectory,
        io_thread: IOThread,
        flushes: Flushes,
        log_line: Callable[[str], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._disk = directory.disk
        self._io_thread = io_thread
        self._flushes = flushes
        self._log_line = log_line
        self._calm = Backoff(CALM_MS, LONGEST_CALM_MS)
        self._calm_ms = CALM_MS
        #: When a write failed, or was found to hang, for the last time.
        self._failed_ms = 0
        #: When the directory became writable again.
        self._recovered_ms = 0
        self._is_probing = False
        #: The next check, in monotonic milliseconds; None while nothing is to be checked.
        self.due_ms: int | None = None

    def write_failed(self, error: DiskFullError, now: Now) -> None:
        """Records could not be written for lack of space, or a new log could not be created."""
        if lacks_space(error):
            self._failed("the disk is full", now)

    def _failed(self, why: str, now: Now) -> None:
        self._failed_ms = now.monotonic_ms
        if self._disk.is_unwritable:
            return
        self._disk.is_unwritable = True
        if now.monotonic_ms - self._recovered_ms > LONGEST_CALM_MS:
            self._calm.reset()
        self._calm_ms = self._calm.next_ms()
        self.due_ms = now.monotonic_ms + self._calm_ms
        self._log_line(
            f"{self._directory.path}: cannot be written at present, so other replicas lead its "
            f"partitions where they can: {why}"
        )

    def take_turn(self, node: Node, now: Now) -> None:
        """Run at the end of a turn: find a sync that hangs, or probe."""
        if self.due_ms is None:
            if self._flushes.in_progress:
                self.due_ms = now.monotonic_ms + self._limit_ms(node)
        elif now.monotonic_ms >= self.due_ms:
            self.due_ms = None
            self._check(node, now)

    @staticmethod
    def _limit_ms(node: Node) -> int:
        limit_ms = node.config.settings.kraftlog_sync_timeout_ms
        return limit_ms if limit_ms >= 0 else node.config.settings.replica_lag_time_max_ms // 2

    def _check(self, node: Node, now: Now) -> None:
        limit_ms = self._limit_ms(node)
        begun_ms = self._flushes.waiting_since_ms(self._directory.logs)
        if begun_ms is not None and now.monotonic_ms - begun_ms >= limit_ms:
            self._failed(f"a sync has not returned for {limit_ms} ms", now)
            self.due_ms = now.monotonic_ms + max(limit_ms, 1)
        elif self._disk.is_unwritable:
            calm_ms = self._failed_ms + self._calm_ms
            if now.monotonic_ms < calm_ms:
                self.due_ms = calm_ms
            else:
                self._probe(now)
        elif begun_ms is not None:
            self.due_ms = begun_ms + limit_ms

    def _probe(self, now: Now) -> None:
        if self._is_probing or self._disk.failure is not None:
            return
        self._is_probing = True
        begun_ms, path = now.monotonic_ms, f"{self._directory.path}/{PROBE}"

        def ended(_: Any, error: BaseException | None, now: Now) -> None:
            self._is_probing = False
            if error is not None and not isinstance(error, OSError):
                raise error
            self._probed(error is None and self._failed_ms < begun_ms, now)

        self._io_thread.submit(lambda: _write_blocks(self._files, path), ended)

    def _probed(self, is_writable: bool, now: Now) -> None:
        if not is_writable or self._disk.has_only_reserve:
            self.due_ms = now.monotonic_ms + PROBE_AGAIN_MS
            return
        self._disk.is_unwritable = False
        self._recovered_ms = now.monotonic_ms
        self._log_line(f"{self._directory.path}: can be written again")


def _write_blocks(files: Files, path: str) -> None:
    """Write and sync a file, then delete it; runs in an I/O thread."""
    try:
        fd = files.open(path, create=True)
        try:
            write_all(files, fd, [bytes(PROBE_BYTES)], 0)
            files.sync(fd)
        finally:
            files.close(fd)
    finally:
        unlink_if_there(files, path)

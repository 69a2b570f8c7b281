"""Group commit: effects that wait until a log is durable, and the flushes for them.

Each log has at most one flush in progress. Effects that start to wait in the meantime are covered
by the next one, so under load one `fdatasync` completes many requests. The metadata log has a
`Flushes` of its own, so that it never waits, or pauses, for another log.

A log that moves to another directory is flushed together with its mirrored copy.
"""

from __future__ import annotations

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.storage.reserve import is_full
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.runner.logs import Logs
    from kraftlog.storage.disk import Disk
    from kraftlog.storage.flush import FlushJob
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Now

#: How long flushes pause while there is no file descriptor or no disk space.
PAUSE_MS = 1000


class Flushes:
    """Holds effects until their offset is durable; `flushed` and `failed` notify the node."""

    def __init__(
        self,
        files: Files,
        logs: Logs,
        io_thread: IOThread,
        flushed: Callable[[LogName, int, Now], None],
        failed: Callable[[LogName, StorageError, Now], None],
    ) -> None:
        self._files = files
        self._logs = logs
        self._io_thread = io_thread
        self._flushed = flushed
        self._failed = failed
        #: The disks whose flushes are paused, and until when.
        self._paused_until_ms: dict[Disk, int] = {}
        #: Why flushes are paused, until it has been logged.
        self.obstacle: DiskFullError | None = None
        self._waiting: dict[LogName, list[tuple[int, Callable[[], None]]]] = {}
        #: The copy of a log that moves, which has to be durable whenever the log is.
        self.mirror_of: Callable[[LogName], Log | None] = lambda _: None
        #: Called when a copy could not be flushed with its log.
        self.mirror_failed: Callable[[LogName, StorageError], None] = lambda _, __: None
        #: The jobs in progress, each with its log and its beginning; the oldest comes first.
        self._jobs: dict[FlushJob, tuple[LogName, int]] = {}

    def hold(self, log: LogName, offset: int, release: Callable[[], None]) -> None:
        """Call `release` once the log is durable up to `offset`; at once if it is."""
        if self._logs[log].recovery_point >= offset:
            release()
        else:
            self._waiting.setdefault(log, []).append((offset, release))

    def request(self, log: LogName, offset: int) -> None:
        """Request a flush of a log up to an offset, without an effect that waits for it.

        The flush is repeated if the log is truncated in the meantime.
        """
        self._waiting.setdefault(log, []).append((offset, _release_nothing))

    @property
    def in_progress(self) -> bool:
        return bool(self._jobs)

    def waiting_since_ms(self, logs: Container[LogName]) -> int | None:
        """The beginning of the oldest flush of these logs that an effect waits for, if any."""
        for name, begun_ms in self._jobs.values():
            if name in logs and any(
                release is not _release_nothing for _, release in self._waiting.get(name, ())
            ):
                return begun_ms
        return None

    def start(self, now: Now) -> None:
        """Run at the end of a turn: start the flushes that something waits for."""
        paused_until_ms = self._paused_until_ms
        for name in list(self._waiting):
            log = self._logs[name]
            if paused_until_ms and now.monotonic_ms < paused_until_ms.get(log.disk, 0):
                continue
            mirror = self.mirror_of(name)
            if mirror is not None and mirror.is_flushing:
                continue
            try:
                job = log.flush_job()
            except DiskFullError as error:
                self._pause(name, log, error, now)
                continue
            except StorageError as error:
                self._drop(name, error, now)
                continue
            if job is not None:
                self._jobs[job] = name, now.monotonic_ms
                self._submit(name, log, job, mirror)

    def _pause(self, name: LogName, log: Log, error: DiskFullError, now: Now) -> None:
        """Pause the flushes of a disk; no data has been lost.

        There was no file descriptor, or no space for the leader epoch checkpoint. If the reserve
        can be spent, the flush is retried without a pause.
        """
        if is_full(error) and self._logs.reserve_of(name).spend():
            return
        self.obstacle = error
        self._paused_until_ms[log.disk] = now.monotonic_ms + PAUSE_MS

    def forget(self, log: LogName) -> None:
        """Drop the effects that wait for a log, because it is deleted."""
        self._waiting.pop(log, None)

    def _submit(self, name: LogName, log: Log, job: FlushJob, mirror: Log | None) -> None:
        mirror_job = None if mirror is None else self._mirror_job(name, mirror)

        def run() -> None:
            if mirror_job is not None:
                mirror_job.run(self._files)
            job.run(self._files)

        def ended(_: Any, error: BaseException | None, now: Now) -> None:
            if error is not None:
                raise error  # a job reports disk errors itself: this one is a bug
            if mirror is not None and mirror_job is not None:
                self._mirror_flushed(name, mirror, mirror_job)
            self._ended(name, log, job, now)

        self._io_thread.submit(run, ended)

    def _mirror_job(self, name: LogName, mirror: Log) -> FlushJob | None:
        try:
            return mirror.flush_job()
        except StorageError as error:
            self.mirror_failed(name, error)
            return None

    def _mirror_flushed(self, name: LogName, mirror: Log, job: FlushJob) -> None:
        try:
            mirror.flushed(job)
        except StorageError as error:
            self.mirror_failed(name, error)

    def _ended(self, name: LogName, log: Log, job: FlushJob, now: Now) -> None:
        self._jobs.pop(job, None)
        try:
            durable = log.flushed(job)
        except DiskFullError as error:
            self._pause(name, log, error, now)
            return
        except StorageError as failure:
            self._drop(name, failure, now)
            return
        if not self._logs.has(name, log):
            return  # deleted meanwhile; another log may have its name by now
        waiting = self._waiting.pop(name, [])
        not_durable = [effect for effect in waiting if effect[0] > durable]
        if not_durable:
            self._waiting[name] = not_durable
        for needed, release in waiting:
            if needed <= durable:
                release()
        self._flushed(name, durable, now)

    def _drop(self, name: LogName, error: StorageError, now: Now) -> None:
        """Drop the effects that wait: their data was never durable."""
        self._waiting.pop(name, None)
        self._failed(name, error, now)


def _release_nothing() -> None:
    """The `release` of a flush that no effect waits for."""

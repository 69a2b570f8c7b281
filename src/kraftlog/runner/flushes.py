"""What waits for a log to be durable, and the flushes that make it so: group commit.

One flush of a log is under way at a time. Whatever begins to wait meanwhile is covered by the next
one, so under load one `fdatasync` carries many answers.
"""

from __future__ import annotations

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.storage.reserve import is_full
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.runner.logs import Logs
    from kraftlog.storage.flush import FlushJob
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Now


#: How long flushes rest while there is no descriptor for a file, or no room.
REST_MS = 1000


class Flushes:
    """Holds effects until their point is durable; `flushed` and `failed` tell the node."""

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
        self._resting_until_ms = 0
        #: Why flushes rest, until it has been logged.
        self.obstacle: DiskFullError | None = None
        self._held: dict[LogName, list[tuple[int, Callable[[], None]]]] = {}

    def hold(self, log: LogName, offset: int, release: Callable[[], None]) -> None:
        """Call `release` once the log is durable up to `offset`; at once if it is."""
        if self._logs[log].recovery_point >= offset:
            release()
        else:
            self._held.setdefault(log, []).append((offset, release))

    def ask(self, log: LogName, offset: int) -> None:
        """Have a log flushed up to an offset although nobody waits for it.

        A truncation may overtake a flush; then what was written behind it is flushed anew.
        """
        self._held.setdefault(log, []).append((offset, _nothing))

    def start(self, now: Now) -> None:
        """At the end of a turn: flush what is waited for and not under way."""
        if now.monotonic_ms < self._resting_until_ms:
            return
        for name in list(self._held):
            log = self._logs[name]
            try:
                job = log.flush_job()
            except DiskFullError as error:
                self._try_again_later(error, now)
                return
            except StorageError as error:
                self._drop(name, error, now)
                continue
            if job is not None:
                self._submit(name, log, job)

    def _try_again_later(self, error: DiskFullError, now: Now) -> None:
        """There was no descriptor for a file, or no room for the epochs beside what is synced:
        nothing has failed to be durable."""
        if is_full(error) and self._logs.reserve.spend():
            return
        self.obstacle = error
        self._resting_until_ms = now.monotonic_ms + REST_MS

    def forget(self, log: LogName) -> None:
        """The log is deleted: what waited for it to be durable does not happen."""
        self._held.pop(log, None)

    def _submit(self, name: LogName, log: Log, job: FlushJob) -> None:
        def ended(_: Any, error: BaseException | None, now: Now) -> None:
            if error is not None:
                raise error  # a job keeps the disk's errors to itself: this one is a bug
            self._ended(name, log, job, now)

        self._io_thread.submit(lambda: job.run(self._files), ended)

    def _ended(self, name: LogName, log: Log, job: FlushJob, now: Now) -> None:
        try:
            durable = log.flushed(job)
        except DiskFullError as error:
            self._try_again_later(error, now)
            return
        except StorageError as failure:
            self._drop(name, failure, now)
            return
        if not self._logs.has(name, log):
            return  # deleted meanwhile; another log may have its name by now
        waiting = self._held.pop(name, [])
        still = [held for held in waiting if held[0] > durable]
        if still:
            self._held[name] = still
        for needed, release in waiting:
            if needed <= durable:
                release()
        self._flushed(name, durable, now)

    def _drop(self, name: LogName, error: StorageError, now: Now) -> None:
        """What waited was never durable, so it does not happen."""
        self._held.pop(name, None)
        self._failed(name, error, now)


def _nothing() -> None:
    """Nobody waits."""

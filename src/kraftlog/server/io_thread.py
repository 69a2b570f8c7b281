"""I/O threads for calls that block in the kernel (fdatasync, cold reads, unlink).

The threads must not compute: a busy one costs the loop five sixths of its throughput. Results are
delivered on the loop, which an eventfd wakes up.
"""

from __future__ import annotations

import errno
import os
from collections import deque

from kraftlog.server.operator_log import log_line
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from queue import SimpleQueue
    from typing import Any

    from kraftlog.types import Now

    Done = Callable[[Any, BaseException | None, Now], None]
    Job = tuple[Callable[[], Any], Done]


class Results:
    """Results of the jobs of one or several threads, in the order in which the jobs ended."""

    def __init__(self) -> None:
        self.ready_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ended: deque[tuple[OsIOThread, Done, Any, BaseException | None]] = deque()

    def add(
        self, thread: OsIOThread, done: Done, result: Any, failure: BaseException | None
    ) -> None:
        self._ended.append((thread, done, result, failure))
        os.eventfd_write(self.ready_fd, 1)

    def deliver(self, now: Now) -> None:
        """On the loop: deliver the results."""
        try:
            os.eventfd_read(self.ready_fd)
        except BlockingIOError:
            return
        while self._ended:
            thread, done, result, failure = self._ended.popleft()
            done(result, failure, now)
            thread.delivered()

    def finish(self, now: Now) -> None:
        """All threads have finished: deliver their results."""
        ended, self._ended = self._ended, deque()  # jobs submitted by callbacks are not included
        for thread, done, result, failure in ended:
            done(result, failure, now)
            thread.delivered()

    def close(self) -> None:
        os.close(self.ready_fd)


class OsIOThread:
    """Runs jobs in order; the thread starts with the first job.

    A thread that `ends_when_idle` runs only while there are jobs. If the system cannot start a
    thread, jobs run on the loop, which delays all clients. The jobs of a thread that `may_fail`
    would take too long there, so they fail instead.
    """

    def __init__(
        self,
        name: str,
        results: Results | None = None,
        *,
        may_fail: bool = False,
        ends_when_idle: bool = False,
    ) -> None:
        self.name = name
        self._may_fail = may_fail
        self._ends_when_idle = ends_when_idle
        self._logged_failure = False
        self._results = results or Results()
        self.ready_fd = self._results.ready_fd
        #: Number of jobs whose results are not delivered yet.
        self._pending = 0
        self._jobs: SimpleQueue[Job | None] | None = None
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job` on the thread, then call `done(result, error, now)` on the loop."""
        self._pending += 1
        if self._jobs is None and not self._start():
            self._run_on_loop(job, done)
            return
        assert self._jobs is not None
        self._jobs.put((job, done))

    def _start(self) -> bool:
        """Start the thread; return whether the system could start it."""
        import threading
        from queue import SimpleQueue

        jobs: SimpleQueue[Job | None] = SimpleQueue()
        thread = threading.Thread(target=self._work, args=(jobs,), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._logged_failure:
                self._logged_failure = True
                log_line(f"cannot start the I/O thread {self.name}: {error}")
            return False
        self._jobs, self._thread = jobs, thread
        return True

    def _work(self, jobs: SimpleQueue[Job | None]) -> None:
        while (taken := jobs.get()) is not None:
            self._do(*taken)

    def _do(self, job: Callable[[], Any], done: Done) -> None:
        result, failure = None, None
        try:
            result = job()
        except BaseException as error:
            failure = error
        self._results.add(self, done, result, failure)

    def _run_on_loop(self, job: Callable[[], Any], done: Done) -> None:
        if self._may_fail:
            failure = OSError(errno.EAGAIN, "cannot start an I/O thread")
            self._results.add(self, done, None, failure)
        else:
            self._do(job, done)

    def deliver(self, now: Now) -> None:
        """On the loop: deliver the results."""
        self._results.deliver(now)

    def delivered(self) -> None:
        """A result has been delivered, and its callback may have submitted more jobs."""
        self._pending -= 1
        if not self._pending and self._ends_when_idle and self._jobs is not None:
            self._jobs.put(None)
            self._thread = self._jobs = None

    def join(self) -> None:
        """Finish all submitted jobs and stop the thread; the next job starts another."""
        if self._thread is not None and self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = self._jobs = None

    def close(self) -> None:
        """Finish all submitted jobs, then stop the thread."""
        self.join()
        self._results.close()


class OsIOThreads:
    """The I/O threads of a node; all report to one eventfd.

    A node without data runs only the thread of the quorum: that of data logs starts with their
    first flush, and that of maintenance runs only while it has jobs.
    """

    def __init__(self) -> None:
        self._results = Results()
        self.ready_fd = self._results.ready_fd
        self.quorum = OsIOThread("quorum", self._results)
        self.data = OsIOThread("data", self._results)
        self.maintenance = OsIOThread("maintenance", self._results, ends_when_idle=True)

    def deliver(self, now: Now) -> None:
        """On the loop: deliver the results."""
        self._results.deliver(now)

    def finish(self, now: Now) -> None:
        """Wait for all submitted jobs and deliver their results."""
        self._join()
        self._results.finish(now)

    def close(self) -> None:
        """Finish all submitted jobs, then stop the threads."""
        self._join()
        self._results.close()

    def _join(self) -> None:
        for thread in (self.quorum, self.data, self.maintenance):
            thread.join()

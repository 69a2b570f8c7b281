"""An I/O thread for calls that block in the kernel (fdatasync, cold reads, unlink).

It must not compute: a busy thread costs the loop five sixths of its throughput. Results are
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


class IOThread:
    """Runs jobs in order; the thread starts with the first job.

    If the system cannot start a thread, jobs run on the loop, which delays all clients; jobs that
    `may_fail`, because they would take too long, fail instead.
    """

    def __init__(self, name: str, *, may_fail: bool = False) -> None:
        self.name = name
        self._may_fail = may_fail
        self._logged_no_room = False
        self.ready_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._jobs: SimpleQueue[Job | None] | None = None
        self._done: deque[tuple[Done, Any, BaseException | None]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job` on the thread, then call `done(result, error, now)` on the loop."""
        if self._jobs is None and not self._start():
            self._do_without(job, done)
            return
        assert self._jobs is not None
        self._jobs.put((job, done))

    def _start(self) -> bool:
        """Start the thread if needed; return whether it runs."""
        import threading
        from queue import SimpleQueue

        jobs: SimpleQueue[Job | None] = SimpleQueue()
        thread = threading.Thread(target=self._work, args=(jobs,), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._logged_no_room:
                self._logged_no_room = True
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
        self._notify(done, result, failure)

    def _do_without(self, job: Callable[[], Any], done: Done) -> None:
        if self._may_fail:
            self._notify(done, None, OSError(errno.EAGAIN, "cannot start an I/O thread"))
        else:
            self._do(job, done)

    def _notify(self, done: Done, result: Any, failure: BaseException | None) -> None:
        self._done.append((done, result, failure))
        os.eventfd_write(self.ready_fd, 1)

    def deliver(self, now: Now) -> None:
        """On the loop: deliver the results."""
        try:
            os.eventfd_read(self.ready_fd)
        except BlockingIOError:
            return
        while self._done:
            done, result, failure = self._done.popleft()
            done(result, failure, now)

    def finish(self, now: Now) -> None:
        """Wait for all submitted jobs and deliver their results."""
        if self._thread is not None and self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = self._jobs = None
        ended, self._done = self._done, deque()  # jobs submitted by callbacks are not included
        for done, result, failure in ended:
            done(result, failure, now)

    def close(self) -> None:
        """Finish all submitted jobs, then stop the thread."""
        if self._thread is not None and self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
        os.close(self.ready_fd)

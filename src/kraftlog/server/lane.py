"""A lane: one thread for calls that block in the kernel (fdatasync, cold reads, unlink).

Never for anything that computes: a busy thread beside the loop costs it five sixths of its
throughput. What came of a job is delivered on the loop, woken through an eventfd.
"""

from __future__ import annotations

import os

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from queue import SimpleQueue
    from typing import Any

    from kraftlog.types import Now

    Done = Callable[[Any, BaseException | None, Now], None]
    Job = tuple[Callable[[], Any], Done]


class Lane:
    """Jobs run one after the other, in order; the thread starts with the first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._jobs: SimpleQueue[Job | None] | None = None
        self._done: SimpleQueue[tuple[Done, Any, BaseException | None]] | None = None
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job` in the lane, then `done(result, error, now)` on the loop."""
        if self._jobs is None:
            self._start()
        assert self._jobs is not None
        self._jobs.put((job, done))

    def _start(self) -> None:
        import threading
        from queue import SimpleQueue

        self._jobs = SimpleQueue()
        self._done = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        assert self._jobs is not None
        assert self._done is not None
        while (taken := self._jobs.get()) is not None:
            job, done = taken
            result, failure = None, None
            try:
                result = job()
            except BaseException as error:
                failure = error
            self._done.put((done, result, failure))
            os.eventfd_write(self.ready_fd, 1)

    def deliver(self, now: Now) -> None:
        """On the loop: tell what has been done since."""
        try:
            os.eventfd_read(self.ready_fd)
        except BlockingIOError:
            return
        self._tell_all(now)

    def _tell_all(self, now: Now) -> None:
        ended = self._done
        assert ended is not None
        while not ended.empty():
            done, result, failure = ended.get()
            done(result, failure, now)

    def finish(self, now: Now) -> None:
        """Wait for what was submitted so far, and tell what came of it."""
        if self._thread is not None and self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = self._jobs = None
            self._tell_all(now)

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        if self._thread is not None and self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
        os.close(self.ready_fd)

"""The I/O threads of a virtual process: each runs its jobs in turn, at the speed of the disk.

The threads are independent, and each may be slow for a long time: code that relies on an order
between jobs of two threads fails in some run.
"""

from __future__ import annotations

import errno
from collections import deque

from kraftlog.storage.cleaning import clean
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.files import Fault, PowerLost

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.types import Now
    from kraftlog_simulator.nodes.node_process import NodeProcess

    Done = Callable[[Any, BaseException | None, Now], None]


class VirtualIOThread:
    """An I/O thread of one incarnation of a process; pending jobs are lost when that ends."""

    def __init__(self, replica: NodeProcess, name: str) -> None:
        self._replica = replica
        self._name = name
        self._incarnation = replica.incarnation
        self._jobs: deque[tuple[Callable[[], Any], Done]] = deque()

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        self._jobs.append((job, done))
        if len(self._jobs) == 1:
            self._begin()

    def _begin(self) -> None:
        world = self._replica.world
        world.schedule(world.time + world.job_ms(self._replica, self._name), self._run)

    def _run(self) -> None:
        replica = self._replica
        if replica.incarnation != self._incarnation:
            return
        job, done = self._jobs[0]
        result, failure = None, None
        fault = None
        replica.world.cancel_expired_crash(replica)
        if replica.world.sync_fails(replica):
            fault = Fault("sync", errno.EIO)
            replica.files.faults.append(fault)
        try:
            result = job()
        except PowerLost:
            replica.crash()
            return
        except Exception as error:  # a real thread reports it to the loop
            failure = error
        if fault is not None:
            replica.files.faults.remove(fault)
        replica.disk.refresh_durable()
        self._jobs.popleft()
        if self._jobs:
            self._begin()
        self._deliver(done, result, failure)

    def _deliver(self, done: Done, result: Any, failure: BaseException | None) -> None:
        replica = self._replica
        if replica.incarnation != self._incarnation:
            return
        if replica.paused:
            replica.waiting.append((self._deliver, (done, result, failure)))
        else:
            replica.turn("has written", done, result, failure)


class VirtualIOThreads:
    """The I/O threads of one incarnation."""

    def __init__(self, replica: NodeProcess) -> None:
        self.quorum = VirtualIOThread(replica, "quorum")
        self.data = VirtualIOThread(replica, "data")
        self.maintenance = VirtualIOThread(replica, "maintenance")

    @property
    def is_busy(self) -> bool:
        return self.quorum.is_busy or self.data.is_busy or self.maintenance.is_busy


class VirtualWorkerProcess:
    """Compacts on the same files, independently of the I/O threads."""

    def __init__(self, replica: NodeProcess) -> None:
        self._files = replica.files
        self._io_thread = VirtualIOThread(replica, "worker")

    def compact(self, task: dict[str, Any], done: Done) -> None:
        self._io_thread.submit(lambda: clean(self._files, task), done)

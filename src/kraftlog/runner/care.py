"""Looking after a log directory now and then: what is removed is unlinked, sealed segments are made
durable, and the checkpoint files follow. All of it in the lane."""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.storage.directory import unlink_garbage
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.lane import Lane
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.directory import CheckpointJob, LogDirectory
    from kraftlog.types import Now

#: Kafka's log.flush.offset.checkpoint.interval.ms.
INTERVAL_MS = 60_000


class Care:
    """`due_ms` is when to look again, in monotonic milliseconds: first at once."""

    def __init__(
        self,
        files: Files,
        directory: LogDirectory,
        lane: Lane,
        flushes: Flushes,
        say: Callable[[str], None],
    ) -> None:
        self.due_ms = 0
        self._files = files
        self._directory = directory
        self._lane = lane
        self._flushes = flushes
        self._say = say
        self._is_writing = False

    def take(self, node: Node, now: Now) -> None:
        """At the end of a turn: see to it if it is time."""
        if now.monotonic_ms < self.due_ms:
            return
        self.due_ms = now.monotonic_ms + INTERVAL_MS
        if self._directory.disk.failure is None:
            self._flush_sealed()
            self._checkpoint(node)
            self._unlink()

    def _flush_sealed(self) -> None:
        """A log's older segments become durable, so that a restart need not read them."""
        for name, log in self._directory.logs.items():
            if log.segments and log.recovery_point < log.segments[-1].base_offset:
                self._flushes.ask(name, log.segments[-1].base_offset)

    def _checkpoint(self, node: Node) -> None:
        if self._is_writing:
            return
        for name, partition in node.by_log.items():
            if partition.online:
                self._directory.high_watermarks[name] = partition.high_watermark
        self._is_writing = True
        job = self._directory.checkpoint_job()
        self._lane.submit(
            lambda: job.run(self._files), lambda _, error, __: self._checkpointed(job, error)
        )

    def _checkpointed(self, job: CheckpointJob, error: BaseException | None) -> None:
        self._is_writing = False
        if error is not None:
            raise error  # a job keeps the disk's errors to itself: this one is a bug
        try:
            self._directory.checkpointed(job)
        except StorageError as failure:
            self._say(str(failure))

    def _unlink(self) -> None:
        garbage = self._directory.take_garbage()
        if garbage:
            self._lane.submit(lambda: unlink_garbage(self._files, garbage), self._unlinked)

    def _unlinked(self, _: Any, error: BaseException | None, now: Now) -> None:  # noqa: ARG002 - lanes report alike
        """What could not be removed is found again at the next start."""
        if isinstance(error, OSError):
            self._say(f"removing deleted files: {error}")
        elif error is not None:
            raise error

"""Compacts a node's logs, one at a time in a worker process, the dirtiest log first.

The worker rewrites the segments. This module chooses the log, and swaps in one new segment a turn,
unless the log has been truncated or deleted in the meantime.
"""

from __future__ import annotations

from kraftlog.effects import LogFailed
from kraftlog.errors import StorageError
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.storage.compaction import (
    KEY_BYTES,
    describe_task,
    last_stable_offset,
    log_to_clean,
    new_segment,
)
from kraftlog.storage.swaps import discard_cleaned
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.ports.worker_process import WorkerProcess
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.compaction import LogToClean
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.storage.segment import Segment
    from kraftlog.types import LogName, Now

#: A compaction that takes longer is logged.
SLOW_MS = 10_000
#: How long a log that could not be compacted is skipped.
PAUSE_MS = 600_000
#: How soon to check again if sealed segments had to be flushed first.
RECHECK_AFTER_FLUSH_MS = 1000


class _Compaction:
    """A compaction in progress."""

    def __init__(self, name: LogName, log: Log, candidate: LogToClean, now: Now) -> None:
        self.name = name
        self.log = log
        self.segments: dict[int, Segment] = {
            segment.base_offset: segment for segment in candidate.segments
        }
        self.truncations = log.truncations
        self.began_ms = now.monotonic_ms
        #: The clean offset of the log, once all new segments are in place.
        self.clean_to = 0
        #: The new segments that are still to be swapped in, each for one or more old ones.
        self.groups: list[dict[str, Any]] = []
        self.read_bytes = 0
        self.saved_bytes = 0


class Compactions:
    """Runs compactions; `due_ms` is the time of the next check for a dirty log (monotonic)."""

    def __init__(
        self,
        files: Files,
        directory: LogDirectory,
        io_thread: IOThread,
        worker: WorkerProcess,
        flushes: Flushes,
        log_line: Callable[[str], None],
        notify: Callable[[Any, Now], None],
        is_moving: Callable[[LogName], bool],
    ) -> None:
        """A log that is being copied to another directory (`is_moving`) keeps its segments.

        Otherwise records could be copied, while the tombstone that deletes them is removed before
        it is copied.
        """
        self._is_moving = is_moving
        self._files = files
        self._directory = directory
        self._io_thread = io_thread
        self._worker = worker
        self._flushes = flushes
        self._log_line = log_line
        self._notify = notify
        self._current: _Compaction | None = None
        self._paused_until_ms: dict[LogName, int] = {}
        self.due_ms = 0
        #: Whether the last check had to request flushes; then one more check follows soon.
        self._has_requested_flushes = False

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do."""
        return self._current is not None and bool(self._current.groups)

    def take_turn(self, node: Node, now: Now) -> bool:
        """Run at the end of a turn: continue or begin a compaction; return whether work was due."""
        is_swapping = self._current is not None and bool(self._current.groups)
        if self._current is not None and is_swapping:
            self._swap_in(self._current, now)
        if now.monotonic_ms < self.due_ms:
            return is_swapping
        layers = node.config_layers()
        # At least 1 ms, or an idle loop would spin.
        self.due_ms = now.monotonic_ms + max(layers.value("log.cleaner.backoff.ms"), 1)
        enabled = node.config.settings.log_cleaner_enable and layers.value("log.cleaner.threads")
        if self._current is None and enabled and self._directory.disk.failure is None:
            max_keys = layers.value("log.cleaner.dedupe.buffer.size") // KEY_BYTES
            is_recheck, self._has_requested_flushes = self._has_requested_flushes, False
            self._begin(node, max_keys, now)
            if is_recheck:
                self._has_requested_flushes = False
            elif self._has_requested_flushes:
                self.due_ms = min(self.due_ms, now.monotonic_ms + RECHECK_AFTER_FLUSH_MS)
        return True

    def close(self) -> None:
        """Shut down cleanly: drop the compaction in progress, whose worker has ended."""
        if self._current is not None:
            self._discard(self._current)

    def _discard(self, compaction: _Compaction) -> None:
        """Delete the new segments of a compaction that is dropped."""
        if self._directory.disk.failure is not None:
            return
        try:
            for base in compaction.segments:
                discard_cleaned(self._files, f"{compaction.log.folder}/{base:020d}")
        except OSError as error:  # the next start removes them
            self._log_line(
                f"{compaction.log.folder}: cannot remove the files of an interrupted compaction: "
                f"{error}"
            )

    def _begin(self, node: Node, max_keys: int, now: Now) -> None:
        best: tuple[tuple[bool, float], LogName, Log, LogToClean] | None = None
        try:
            for name, log in self._directory.logs.items():
                if not log.config.compacted or name == METADATA_LOG:
                    continue
                candidate = self._candidate(node, name, log, now)
                if candidate is not None and (
                    best is None or (candidate.is_due, candidate.ratio) > best[0]
                ):
                    best = (candidate.is_due, candidate.ratio), name, log, candidate
            if best is None:
                return
            _, name, log, candidate = best
            task = describe_task(log, candidate, now.wall_ms, max_keys)
        except OSError as error:
            self._log_line(
                str(self._directory.disk.fail_unless_full("finding a log to compact", error))
            )
            return
        except StorageError as error:
            self._log_line(f"cannot select a log to compact: {error}")
            return
        compaction = self._current = _Compaction(name, log, candidate, now)
        self._worker.compact(
            task, lambda result, error, now: self._rewritten(compaction, result, error, now)
        )

    def _candidate(self, node: Node, name: LogName, log: Log, now: Now) -> LogToClean | None:
        partition = node.replica_manager.by_log.get(name)
        if partition is None or not partition.is_open:
            return None
        if now.monotonic_ms < self._paused_until_ms.get(name, 0) or self._is_moving(name):
            return None
        if log.segments and log.recovery_point < log.segments[-1].base_offset:
            # Sealed segments are compacted once they are durable.
            self._flushes.request(name, log.segments[-1].base_offset)
            self._has_requested_flushes = True
        return log_to_clean(log, last_stable_offset(log, partition.high_watermark), now.wall_ms)

    def _rewritten(
        self, compaction: _Compaction, result: Any, error: BaseException | None, now: Now
    ) -> None:
        """The worker has finished: its segments are swapped in during the next turns."""
        if error is not None:
            self._current = None
            if not isinstance(error, (OSError, StorageError)):
                raise error
            # A killed worker has left files, and the folder may belong to another log by now.
            self._discard(compaction)
            if self._is_unchanged(compaction):
                self._paused_until_ms[compaction.name] = now.monotonic_ms + PAUSE_MS
                self._log_line(f"{compaction.log.folder}: compaction failed: {error}")
            return
        compaction.groups = result["groups"]
        compaction.clean_to = result["clean_to"]
        compaction.read_bytes = result["read_bytes"]
        if not compaction.groups:
            self._end(compaction, now)

    def _is_unchanged(self, compaction: _Compaction) -> bool:
        """Whether the log is still here, is not being moved, and was not truncated meanwhile."""
        is_online = self._directory.disk.failure is None
        is_same = self._directory.logs.get(
            compaction.name
        ) is compaction.log and not self._is_moving(compaction.name)
        return is_online and is_same and compaction.log.truncations == compaction.truncations

    def _swap_in(self, compaction: _Compaction, now: Now) -> None:
        group = compaction.groups.pop(0)
        log, bases = compaction.log, group["bases"]
        try:
            old = [compaction.segments[base] for base in bases]
            if self._is_unchanged(compaction) and all(segment in log.segments for segment in old):
                log.replace_segments(old, new_segment(log, group))
                compaction.saved_bytes += group["old_size"] - group["size"]
            elif self._directory.disk.failure is None:  # truncated, deleted or expired
                discard_cleaned(self._files, f"{log.folder}/{bases[0]:020d}")
        except OSError as error:
            self._log_line(
                str(self._directory.disk.fail_unless_full(f"{log.folder}: compacting", error))
            )
        except StorageError as error:
            self._log_line(str(error))
            self._notify(LogFailed(compaction.name, compaction.log.topic_id, str(error)), now)
        if not compaction.groups:
            self._end(compaction, now)

    def _end(self, compaction: _Compaction, now: Now) -> None:
        """Make the new file names durable; only then is the clean offset raised."""
        took_ms = now.monotonic_ms - compaction.began_ms
        if took_ms >= SLOW_MS:
            self._log_line(
                f"{compaction.log.folder}: {compaction.read_bytes} bytes compacted in "
                f"{took_ms / 1000:.0f} s, "
                f"{compaction.saved_bytes} fewer"
            )
        if not self._is_unchanged(compaction):
            self._current = None
            return
        self._io_thread.submit(
            lambda: self._files.sync_folder(compaction.log.folder),
            lambda _, error, now: self._synced(compaction, error, now),
        )

    def _synced(self, compaction: _Compaction, error: BaseException | None, now: Now) -> None:
        self._current = None
        if not self._is_unchanged(compaction):
            return
        if isinstance(error, OSError):
            failure = self._directory.disk.fail(f"{compaction.log.folder}: syncing", error)
            self._log_line(str(failure))
            self._notify(LogFailed(compaction.name, compaction.log.topic_id, str(failure)), now)
        elif error is not None:
            raise error
        else:
            if compaction.clean_to > compaction.log.clean_offset:
                # Check for the next dirty log at once: the backoff is for a cleaner without work.
                self.due_ms = now.monotonic_ms
            compaction.log.clean_offset = compaction.clean_to

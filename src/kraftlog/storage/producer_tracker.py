"""The producer state of the written log, and its snapshot files.

The partition validates against its own producer state; this is the log's copy, which is never ahead
of the written batches. Adding batches only extends a list, and the state is computed on demand.
"""

from __future__ import annotations

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.producers import NO_OFFSET, ProducerState
from kraftlog.storage.disk import read_whole, unlink_if_there, write_whole
from kraftlog.storage.producer_snapshots import decode_snapshot, encode_entries, encode_snapshot
from kraftlog.storage.scan import Scan, scan_file
from kraftlog.storage.segment import SNAPSHOT, file_name
from kraftlog.storage.transactions import AbortedTransaction
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.logstate.producers import ProducerEntry
    from kraftlog.storage.batches import ProducerBatch
    from kraftlog.storage.disk import Disk
    from kraftlog.storage.segment import Segment

#: With more batches than this, `note` applies them to the state.
_FOLD_AT = 512
#: A snapshot of more producers is queued, not written in the turn that rolls the segment.
FEW_PRODUCERS = 2_000


class QueuedSnapshot:
    """The producers at an offset, whose snapshot is still to be written."""

    __slots__ = ("entries", "is_scheduled", "offset")

    def __init__(self, offset: int, entries: list[ProducerEntry]) -> None:
        self.offset = offset
        self.entries = entries
        #: whether `LogMaintenance` has queued it to be written
        self.is_scheduled = False


class ProducerTracker:
    """Producer state at the end of the log; `snapshots` are the offsets of the files, ascending."""

    __slots__ = ("_disk", "_pending", "_state", "folder", "queued", "snapshots")

    def __init__(self, disk: Disk, folder: str, snapshots: list[int] | None = None) -> None:
        self._disk = disk
        self.folder = folder
        self._pending: list[ProducerBatch] = []
        self._state: ProducerState | None = None
        self.snapshots: list[int] = snapshots if snapshots is not None else []
        #: Large snapshots still to be written; without them recovery reads more of the log.
        self.queued: list[QueuedSnapshot] = []

    @property
    def state(self) -> ProducerState:
        if self._state is None:
            self._state = ProducerState()
        if self._pending:
            self._fold()
        return self._state

    @state.setter
    def state(self, state: ProducerState) -> None:
        self._pending.clear()
        if self._state is not None:
            state.forgotten_below = max(state.forgotten_below, self._state.forgotten_below)
        self._state = state

    @property
    def is_empty(self) -> bool:
        """Whether there are no producers, and none has expired."""
        state = self._state
        return not self._pending and (state is None or not (state.entries or state.forgotten_below))

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers that have been idle for long."""
        if not self.is_empty:
            self.state.expire(now_ms, expiration_ms)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Forget transactions whose markers are below the high watermark."""
        if not self.is_empty:
            self.state.high_watermark_moved(high_watermark)

    def note(self, producers: Sequence[ProducerBatch]) -> list[AbortedTransaction]:
        """Add appended batches; return the transactions that they abort."""
        self._pending += producers
        if len(self._pending) > _FOLD_AT or any(batch.marker for batch in producers):
            return self._fold()
        return []

    def _fold(self) -> list[AbortedTransaction]:
        """Apply the pending batches to the state; return the transactions that they abort."""
        state = self._state = self._state if self._state is not None else ProducerState()
        aborted = []
        for batch in self._pending:
            completed = state.apply(batch.header, batch.marker)
            if completed is not None and completed.aborted:
                aborted.append(
                    AbortedTransaction(
                        completed.producer_id,
                        completed.first_offset,
                        completed.last_offset,
                        state.stable_after(completed),
                    )
                )
        self._pending.clear()
        return aborted

    # -- files ------------------------------------------------------------------------------------

    def path(self, offset: int) -> str:
        return f"{self.folder}/{file_name(offset, SNAPSHOT)}"

    def roll(self, offset: int) -> list[str]:
        """Write a rolled segment's snapshot, or queue a large one; return the paths."""
        if len(self.state.entries) <= FEW_PRODUCERS:
            return [self.write_snapshot(offset)]
        self.queued.append(QueuedSnapshot(offset, list(self.state.entries.values())))
        return []

    def write_snapshot(self, offset: int) -> str:
        """Write the current state, which must be that at `offset`; return the file's path."""
        return self.write_encoded(offset, encode_snapshot(self.state))

    def write_queued(self, snapshot: QueuedSnapshot, data: bytes) -> str:
        """Write a queued snapshot once it is encoded; return the file's path."""
        self.queued.remove(snapshot)
        return self.write_encoded(snapshot.offset, data)

    def write_encoded(self, offset: int, data: bytes) -> str:
        """Write an encoded snapshot; return the file's path."""
        path = self.path(offset)
        write_whole(self._disk.files, path, data, sync=False)
        if offset not in self.snapshots:
            self.snapshots.append(offset)
            self.snapshots.sort()
        return path

    def replay(self, segments: Sequence[Segment], end_offset: int, interval_bytes: int) -> None:
        """Rebuild the state at the end of the segments, from the newest snapshot on."""
        snapshot_offset = self.load(end_offset)
        for segment in segments:
            if segment.end_offset > snapshot_offset:
                scan = Scan(
                    segment.base_offset,
                    interval_bytes,
                    with_crc=False,
                    producers=self.state,
                    producers_from=snapshot_offset,
                )
                for _ in scan_file(self._disk, segment.log, segment.size, scan):
                    pass

    def load(self, max_offset: int) -> int:
        """Load the newest valid snapshot up to an offset; return where the replay must start.

        A corrupt snapshot is deleted. Without any, everything is replayed.
        """
        for offset in reversed([offset for offset in self.snapshots if offset <= max_offset]):
            path = self.path(offset)
            try:
                self.state = decode_snapshot(read_whole(self._disk.files, path), path)
                return offset
            except (CorruptLogError, FileNotFoundError):
                self._remove(offset)
        self.state = ProducerState()
        return NO_OFFSET

    def remove_above(self, offset: int) -> None:
        self.queued = [snapshot for snapshot in self.queued if snapshot.offset <= offset]
        for snapshot_offset in [each for each in self.snapshots if each > offset]:
            self._remove(snapshot_offset)

    def remove_below(self, offset: int) -> list[str]:
        """Delete snapshots before the log start, but never the newest.

        Queued snapshots up to that offset are written at once, and their paths returned.
        """
        queued = [snapshot for snapshot in self.queued if snapshot.offset <= offset]
        written = [
            self.write_queued(snapshot, encode_entries(snapshot.entries)) for snapshot in queued
        ]
        for snapshot_offset in [each for each in self.snapshots[:-1] if each < offset]:
            self._remove(snapshot_offset)
        return written

    def remove(self, offset: int) -> None:
        """Delete the snapshot of a deleted segment; the newest one always stays."""
        if offset in self.snapshots[:-1]:
            self._remove(offset)

    def clear(self) -> None:
        self.state = ProducerState()
        self.remove_above(NO_OFFSET)

    def _remove(self, offset: int) -> None:
        self.snapshots.remove(offset)
        unlink_if_there(self._disk.files, self.path(offset))

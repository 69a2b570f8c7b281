"""When the state is worth a snapshot, and the snapshot that is on its way to the disk."""

from __future__ import annotations

from kraftlog.effects import StoreSnapshot
from kraftlog.node.quorum.snapshots import snapshot_pieces
from kraftlog.raft.messages import SnapshotTaken
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.effects import SnapshotStored
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message


class Snapping:
    """One at a time; the core shortens the log once it is stored."""

    def __init__(self, core: RaftCore, emit: Callable[[Any], None]) -> None:
        self._core = core
        self._emit = emit
        #: Bytes applied since the newest snapshot, when that was, and whether one is being made.
        self._unsnapped = 0
        self._snapped_at_ms = core.now.monotonic_ms
        self._is_under_way = False

    def applied(self, records: int, size_bytes: int) -> None:
        """So much more stands in the log that a snapshot would have room for."""
        self._unsnapped += size_bytes

    def is_due(self, now: Now, after_bytes: int, after_ms: int) -> bool:
        """Whether so much was applied, or so long ago, that the log should be shortened."""
        if self._is_under_way or not self._unsnapped:
            return False
        waited = now.monotonic_ms - self._snapped_at_ms
        return self._unsnapped >= after_bytes or 0 < after_ms <= waited

    def take(self, records: Iterable[Message], offset: int, now: Now) -> None:
        """`records` are the state before this offset."""
        log = self._core.log
        epoch = log.epochs.epoch_at(offset - 1)
        self._is_under_way = True
        self._unsnapped = 0
        self._snapped_at_ms = now.monotonic_ms
        voters = log.voters.committed(offset)
        pieces = snapshot_pieces(records, voters, epoch, now.wall_ms)
        self._emit(StoreSnapshot(OffsetAndEpoch(offset, epoch), pieces))

    def stored(self, report: SnapshotStored, now: Now) -> None:
        self._is_under_way = False
        self._core.handle(SnapshotTaken(report.id), now)

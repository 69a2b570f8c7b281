"""When the state is worth a snapshot, and the snapshot that is on its way to the disk."""

from __future__ import annotations

from kraftlog.effects import StoreSnapshot
from kraftlog.node.quorum.snapshots import snapshot_pieces
from kraftlog.raft.messages import SnapshotTaken
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.effects import SnapshotStored
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message


#: So many records are replayed in about a tenth of a second. Who starts can't lead before that.
RECORDS = 10_000
BYTES_KEY = "metadata.log.max.record.bytes.between.snapshots"


class SnapshotPolicy(Value):
    """How much may have been applied since the newest snapshot, and how long ago it may be.

    `after_records`: so many, or as many as that one holds if they are more. A large state is then
    not written again and again, yet a start takes at most about twice as long as reading it alone.
    None where the operator has said after how many bytes: then these alone count, as in Kafka.
    """

    after_bytes: int
    #: 0: never for this.
    after_ms: int
    after_records: int | None = RECORDS


def snapshot_policy_of(settings: BrokerConfig) -> SnapshotPolicy:
    return SnapshotPolicy(
        settings.metadata_log_max_record_bytes_between_snapshots,
        settings.metadata_log_max_snapshot_interval_ms,
        None if settings.is_given(BYTES_KEY) else RECORDS,
    )


class Snapshotter:
    """One at a time. The core is told of each when the next is stored, and shortens the log then:
    whoever is behind by no more than one reads on in the log, and need not fetch all anew."""

    def __init__(self, core: RaftCore, emit: Callable[[Any], None]) -> None:
        self._core = core
        self._emit = emit
        #: The newest that is stored, how many records it holds, and when it was taken.
        self._newest = core.log.snapshot
        self._held = 0
        self._snapped_at_ms = core.now.monotonic_ms
        #: What was applied since: records and bytes.
        self._records = self._bytes = 0
        self._is_under_way = False

    def found(self, records: int, newest: OffsetAndEpoch | None) -> None:
        """What the state was made from: a snapshot that was there, or has come from a leader."""
        self._held, self._newest = records, newest
        self._records = self._bytes = 0

    def applied(self, records: int, size_bytes: int) -> None:
        """So much more stands in the log that a snapshot would have room for."""
        self._records += records
        self._bytes += size_bytes

    def is_due(self, now: Now, snapshot_policy: SnapshotPolicy) -> bool:
        """Whether so much was applied, or so long ago, that a start would take too long."""
        if self._is_under_way or not self._records:
            return False
        most = snapshot_policy.after_records
        waited = now.monotonic_ms - self._snapped_at_ms
        return (
            self._bytes >= snapshot_policy.after_bytes
            or (most is not None and self._records >= max(most, self._held))
            or 0 < snapshot_policy.after_ms <= waited
        )

    def take(self, records: Iterable[Message], offset: int, now: Now) -> None:
        """`records` are the state before this offset."""
        log = self._core.log
        epoch = log.epochs.epoch_at(offset - 1)
        self._is_under_way = True
        self._records = self._bytes = self._held = 0
        self._snapped_at_ms = now.monotonic_ms
        voters = log.voters.committed(offset)
        pieces = snapshot_pieces(self._counted(records), voters, epoch, now.wall_ms)
        self._emit(StoreSnapshot(OffsetAndEpoch(offset, epoch), pieces))

    def _counted(self, records: Iterable[Message]) -> Iterator[Message]:
        for record in records:
            self._held += 1
            yield record

    def stored(self, report: SnapshotStored, now: Now) -> None:
        self._is_under_way = False
        before = self._newest
        if before is None or before.offset < report.id.offset:  # else a leader's came in between
            self._newest = report.id
        if before is not None:
            self._core.handle(SnapshotTaken(before), now)

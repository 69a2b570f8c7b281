"""`Snapshotter`: takes snapshots of the metadata by `SnapshotPolicy`."""

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


#: The default limit in records: replaying them takes about 0.1 s, and a starting node cannot lead
#: before it has done that.
RECORDS = 10_000
BYTES_KEY = "metadata.log.max.record.bytes.between.snapshots"


class SnapshotPolicy(Value):
    """Limits since the latest snapshot: applied bytes, time, and applied records.

    If the latest snapshot has more than `after_records` records, their number is the limit: so a
    large state is not written too often, and a start takes at most about twice as long as reading
    the snapshot. If the operator has set the limit in bytes, `after_records` is None and records do
    not count, as in Kafka.
    """

    after_bytes: int
    #: 0: no limit.
    after_ms: int
    after_records: int | None = RECORDS


def snapshot_policy_of(settings: BrokerConfig) -> SnapshotPolicy:
    return SnapshotPolicy(
        settings.metadata_log_max_record_bytes_between_snapshots,
        settings.metadata_log_max_snapshot_interval_ms,
        None if settings.is_given(BYTES_KEY) else RECORDS,
    )


class Snapshotter:
    """Takes one snapshot at a time.

    The core learns of a snapshot when the next one is stored, and truncates the log prefix then: a
    follower that lags by at most one snapshot still finds its offset in the log.
    """

    def __init__(self, core: RaftCore, emit: Callable[[Any], None]) -> None:
        self._core = core
        self._emit = emit
        #: The latest stored snapshot, its number of records, and when it was taken.
        self._latest = core.log.snapshot
        self._latest_records = 0
        self._taken_ms = core.now.monotonic_ms
        #: Records and bytes applied since the latest snapshot.
        self._records = self._bytes = 0
        self._is_being_written = False

    def loaded(self, records: int, snapshot: OffsetAndEpoch | None) -> None:
        """The state has been loaded from a local snapshot or from one of the leader."""
        self._latest_records, self._latest = records, snapshot
        self._records = self._bytes = 0

    def applied(self, records: int, size_bytes: int) -> None:
        """Count applied records and bytes."""
        self._records += records
        self._bytes += size_bytes

    def is_due(self, now: Now, snapshot_policy: SnapshotPolicy) -> bool:
        """Whether a limit of the policy is reached."""
        if self._is_being_written or not self._records:
            return False
        max_records = snapshot_policy.after_records
        elapsed_ms = now.monotonic_ms - self._taken_ms
        return (
            self._bytes >= snapshot_policy.after_bytes
            or (max_records is not None and self._records >= max(max_records, self._latest_records))
            or 0 < snapshot_policy.after_ms <= elapsed_ms
        )

    def take(self, records: Iterable[Message], offset: int, now: Now) -> None:
        """Take a snapshot of the state before `offset`; `records` are that state."""
        log = self._core.log
        epoch = log.epochs.epoch_at(offset - 1)
        self._is_being_written = True
        self._records = self._bytes = self._latest_records = 0
        self._taken_ms = now.monotonic_ms
        voters = log.voters.committed(offset)
        pieces = snapshot_pieces(self._counted(records), voters, epoch, now.wall_ms)
        self._emit(StoreSnapshot(OffsetAndEpoch(offset, epoch), pieces))

    def _counted(self, records: Iterable[Message]) -> Iterator[Message]:
        """Count the records of the snapshot while they are written."""
        for record in records:
            self._latest_records += 1
            yield record

    def stored(self, report: SnapshotStored, now: Now) -> None:
        self._is_being_written = False
        before = self._latest
        if before is None or before.offset < report.id.offset:  # else the leader sent a newer one
            self._latest = report.id
        if before is not None:
            self._core.handle(SnapshotTaken(before), now)

"""The metadata log as a core knows it, from what is on disk."""

from __future__ import annotations

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.voters import VoterHistory, VoterSet
from kraftlog.node.quorum.batches import snapshot_voters, summaries
from kraftlog.raft.log import RaftLog
from kraftlog.storage.config import LogConfig
from kraftlog.storage.metadata_snapshots import MetadataSnapshots
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.storage.log import Log

#: The metadata log is bounded by snapshots, not by age or size.
METADATA = LogConfig(contiguous=True, retention_ms=-1, retention_bytes=-1)
#: How much is read in a step where all of a log, or much of it, is read.
READ_BYTES = 1 << 20


class StoredSnapshot(Value):
    """A whole snapshot of the metadata, and up to where in the log it says everything."""

    end: OffsetAndEpoch
    content: bytes


def newest_snapshot(log: Log) -> StoredSnapshot | None:
    """The newest one beside a log; what was never finished is removed."""
    snapshots = MetadataSnapshots(log.disk.files, log.folder)
    snapshots.look_around()
    end = snapshots.latest
    return None if end is None else StoredSnapshot(end, snapshots.read(end))


def read_batches(log: Log, offset: int, limit: int, max_bytes: int = READ_BYTES) -> bytes:
    """Whole batches from the one that holds `offset`; none where there are none."""
    place = log.locate(offset, max_bytes, limit)
    return b"" if place is None else log.read(place)


def recovered_log(log: Log, snapshot: StoredSnapshot | None, high_watermark: int = 0) -> RaftLog:
    """Its ends, epochs and voters; control records are read from behind the newest snapshot on."""
    voters = VoterHistory(VoterSet())
    offset = log.start_offset
    if snapshot is not None:
        voters.base = snapshot_voters(snapshot.content) or voters.base
        offset = max(offset, snapshot.end.offset)
    epochs = log.epochs.copy()
    epochs.truncate_from_start(offset)
    while data := read_batches(log, offset, log.end_offset):
        read_to = offset
        for batch in summaries(data):
            offset = batch.last_offset + 1
            if batch.voters is not None:
                voters.append(batch.base_offset, batch.voters)
        if offset == read_to:
            raise CorruptLogError(f"{log.folder}: no sound batch at offset {offset}")
    return RaftLog(
        voters,
        log.start_offset,
        log.end_offset,
        epochs,
        min(high_watermark, log.end_offset),
        # What formatting leaves is a snapshot of nothing.
        snapshot.end if snapshot is not None and snapshot.end.offset > 0 else None,
    )

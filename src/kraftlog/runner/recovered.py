"""The metadata log as a core knows it, from what is on disk."""

from __future__ import annotations

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.voters import VoterHistory, VoterSet
from kraftlog.node.quorum.batches import summaries
from kraftlog.raft.log import RaftLog
from kraftlog.storage.metadata_snapshots import MetadataSnapshots
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.storage.log import Log
    from kraftlog.types import OffsetAndEpoch

CHUNK_BYTES = 1 << 20


def recovered_log(log: Log, high_watermark: int = 0) -> RaftLog:
    """Its ends, epochs and voters; control records are read from behind the newest snapshot on."""
    snapshots = MetadataSnapshots(log.disk.files, log.folder)
    snapshots.look_around()
    snapshot = snapshots.latest
    voters = VoterHistory(VoterSet())
    if snapshot is not None:
        voters.base = snapshot_voters(snapshots, snapshot)
    offset = max(log.start_offset, snapshot.offset if snapshot is not None else 0)
    while (place := log.locate(offset, CHUNK_BYTES, log.end_offset)) is not None:
        read_to = offset
        for batch in summaries(log.read(place)):
            offset = batch.last_offset + 1
            if batch.voters is not None:
                voters.append(batch.base_offset, batch.voters)
        if offset == read_to:
            raise CorruptLogError(f"{log.folder}: no sound batch at offset {offset}")
    return RaftLog(
        voters,
        log.start_offset,
        log.end_offset,
        log.epochs.copy(),
        min(high_watermark, log.end_offset),
        # What formatting leaves is a snapshot of nothing.
        snapshot if snapshot is not None and snapshot.offset > 0 else None,
    )


def snapshot_voters(snapshots: MetadataSnapshots, snapshot: OffsetAndEpoch) -> VoterSet:
    """The voters among its control records."""
    found = [batch.voters for batch in summaries(snapshots.read(snapshot))]
    return next((voters for voters in reversed(found) if voters is not None), VoterSet())

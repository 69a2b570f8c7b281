"""The metadata log as a core knows it, from what is on disk."""

from __future__ import annotations

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.voters import VoterHistory, VoterSet
from kraftlog.node.quorum.batches import summaries
from kraftlog.raft.log import RaftLog
from kraftlog.storage.disk import read_whole
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files
    from kraftlog.storage.log import Log

CHUNK_BYTES = 1 << 20
SNAPSHOT_ENDING = ".checkpoint"


def recovered_log(log: Log, high_watermark: int = 0) -> RaftLog:
    """Its ends, epochs and voters; control records are read from the log's start on."""
    files = log.disk.files
    snapshot = newest_snapshot(files, log.folder)
    voters = VoterHistory(VoterSet())
    if snapshot is not None:
        voters.base = snapshot_voters(files, log.folder, snapshot)
    offset = log.start_offset
    while (place := log.locate(offset, CHUNK_BYTES, log.end_offset)) is not None:
        read_to = offset
        for batch in summaries(log.read(place)):
            offset = batch.last_offset + 1
            if batch.voters is not None:
                voters.append(batch.base_offset, batch.voters)
        if offset == read_to:
            raise CorruptLogError(f"{log.folder}: no sound batch at offset {offset}")
    committed = snapshot.offset if snapshot is not None else 0
    known = max(min(high_watermark, log.end_offset), min(committed, log.end_offset))
    found = RaftLog(voters, log.start_offset, log.end_offset, log.epochs.copy(), known)
    found.snapshot = snapshot if log.start_offset else None
    return found


def newest_snapshot(files: Files, folder: str) -> OffsetAndEpoch | None:
    """Kafka names them `<end offset>-<epoch>.checkpoint`; unfinished ones end otherwise."""
    found = None
    for name in files.list(folder):
        if name.endswith(SNAPSHOT_ENDING):
            offset, _, epoch = name.removesuffix(SNAPSHOT_ENDING).partition("-")
            if offset.isdecimal() and epoch.isdecimal():
                end = OffsetAndEpoch(int(offset), int(epoch))
                found = end if found is None or end.offset > found.offset else found
    return found


def snapshot_voters(files: Files, folder: str, snapshot: OffsetAndEpoch) -> VoterSet:
    """The voters among its control records."""
    path = f"{folder}/{snapshot.offset:020d}-{snapshot.epoch:010d}{SNAPSHOT_ENDING}"
    found = [batch.voters for batch in summaries(read_whole(files, path))]
    return next((voters for voters in reversed(found) if voters is not None), VoterSet())

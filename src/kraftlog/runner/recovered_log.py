"""Rebuilds the raft core's view of the metadata log from the disk."""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, CorruptLogError
from kraftlog.logstate.voters import VoterHistory, VoterSet
from kraftlog.node.quorum.batches import snapshot_voters, summaries
from kraftlog.node.quorum.snapshots import check_snapshot
from kraftlog.raft.log import RaftLog
from kraftlog.storage.config import LogConfig
from kraftlog.storage.metadata_snapshots import MetadataSnapshots
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.storage.log import Log

#: The metadata log is bounded by snapshots, not by age or size.
METADATA_CONFIG = LogConfig(contiguous=True, retention_ms=-1, retention_bytes=-1, uses_reserve=True)
#: Bytes per read when a large part of a log is read.
READ_BYTES = 1 << 20


class StoredSnapshot(Value):
    """A complete metadata snapshot, and the end of the log that it covers."""

    end: OffsetAndEpoch
    content: bytes


def newest_snapshot(log: Log, log_line: Callable[[str], None]) -> StoredSnapshot | None:
    """The newest complete snapshot in a log's folder.

    Raises CorruptLogError if the log starts after the end of that snapshot, or after offset 0
    without one. Corrupt snapshots are logged and skipped; unfinished ones are deleted.
    """
    snapshots = MetadataSnapshots(log.disk.files, log.folder)
    snapshots.remove_unfinished()
    newest = None
    for end in snapshots.list_newest_first():
        content = snapshots.read(end)
        try:
            check_snapshot(content)
        except CorruptBatchError as error:
            log_line(f"ignored the corrupt snapshot {snapshots.path(end)}: {error}")
            continue
        newest = StoredSnapshot(end, content)
        break
    if log.start_offset > (0 if newest is None else newest.end.offset):
        raise CorruptLogError(_missing_snapshot_message(log))
    return newest


def _missing_snapshot_message(log: Log) -> str:
    return (
        f"{log.folder}: the log starts at offset {log.start_offset}, and the snapshot up to there "
        "is missing or corrupt, so the metadata is incomplete. Restore the .checkpoint file from "
        f"a copy, or fetch the metadata again: on a broker, remove {log.folder}; on a controller, "
        "empty the directory, format it and replace the voter (kraftlog quorum "
        "remove-controller, add-controller). If a majority of the controllers is lost, run "
        "kraftlog quorum repair on one with an intact snapshot"
    )


def read_batches(log: Log, offset: int, limit: int, max_bytes: int = READ_BYTES) -> bytes:
    """Whole batches from the one that contains `offset`; empty if there are none."""
    place = log.locate(offset, max_bytes, limit)
    return b"" if place is None else log.read(place)


def recovered_log(log: Log, snapshot: StoredSnapshot | None, high_watermark: int = 0) -> RaftLog:
    """The log's offsets, epochs and voters; reads the control records after the newest snapshot."""
    voters = VoterHistory(VoterSet())
    offset = log.start_offset
    if snapshot is not None:
        voters.base = snapshot_voters(snapshot.content) or voters.base
        offset = max(offset, snapshot.end.offset)
    epochs = log.epochs.copy()
    epochs.truncate_from_start(offset)
    while data := read_batches(log, offset, log.end_offset):
        previous_offset = offset
        for batch in summaries(data):
            offset = batch.last_offset + 1
            if batch.voters is not None:
                voters.append(batch.base_offset, batch.voters)
        if offset == previous_offset:
            raise CorruptLogError(f"{log.folder}: no valid batch at offset {offset}")
    return RaftLog(
        voters,
        log.start_offset,
        log.end_offset,
        epochs,
        min(high_watermark, log.end_offset),
        # The snapshot that `format` writes ends at offset 0: it covers no part of the log.
        snapshot.end if snapshot is not None and snapshot.end.offset > 0 else None,
    )

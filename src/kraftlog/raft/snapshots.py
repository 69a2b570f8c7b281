"""Snapshots bound the log (Q38): taken at a committed batch boundary, fetched in chunks.

The log of a replica with a snapshot starts where the snapshot ends. A fetcher whose log ends, or
diverges, before that start gets the snapshot's id instead of records. It fetches the snapshot,
replaces its log with it and continues from its end.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft import fetching, quorum
from kraftlog.raft.messages import (
    DropPrefix,
    InstallSnapshot,
    SnapshotChunk,
    SnapshotFetch,
    WriteSnapshot,
)
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.raft.interfaces import Core, LeaderRole
    from kraftlog.raft.messages import (
        Fetch,
        Request,
        SnapshotDamaged,
        SnapshotInstalled,
        SnapshotTaken,
    )
    from kraftlog.types import OffsetAndEpoch

    class FetcherRole(Protocol):
        """A follower or an observer (`Fetcher`, which imports this module)."""

        download: Download | None


class Download(Value):
    """A snapshot that is being fetched, up to `position` so far."""

    id: OffsetAndEpoch
    position: int = 0


# Every replica -----------------------------------------------------------------------------------


def on_taken(core: Core, taken: SnapshotTaken) -> None:
    """Drop the log that a new local snapshot covers."""
    log, end = core.log, taken.id
    if end.offset <= log.start:
        return  # a newer snapshot has been installed meanwhile
    assert end.offset <= log.high_watermark, "a snapshot contains only committed records"
    assert log.epochs.epoch_at(end.offset - 1) == end.epoch, "the epoch of its last record"
    log.drop_prefix(end)
    core.effect(DropPrefix(end.offset))


# Leader ------------------------------------------------------------------------------------------


def is_needed(core: Core, fetch: Fetch) -> bool:
    """Whether a fetcher needs the snapshot: its log ends, or diverges, before our log starts."""
    snapshot = core.log.snapshot
    if snapshot is None or fetch.last_epoch < 0:
        return fetch.offset < core.log.start
    return (
        fetch.offset < snapshot.offset
        or fetch.last_epoch < snapshot.epoch
        or (fetch.offset == snapshot.offset and fetch.last_epoch != snapshot.epoch)
    )


def on_fetch(core: Core, leader: LeaderRole, request: Request, fetch: SnapshotFetch) -> None:
    """Respond with a position in the snapshot; the leader's host fills in the bytes."""
    error = leader.epoch_error(core, fetch.cluster_id, fetch.epoch)
    if not error:
        leader.progress.note_snapshot_needed(fetch.replica, core.now)
        if fetch.max_bytes < 0:
            error = ErrorCode.INVALID_REQUEST
        elif fetch.id != core.log.snapshot:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif fetch.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    core.reply(request.pending, chunk_response(core, fetch, error))


def chunk_response(core: Core, fetch: SnapshotFetch, error: int) -> SnapshotChunk:
    """The response with this error; without one, the host fills in the size and the data."""
    return SnapshotChunk(
        error=error,
        id=fetch.id,
        position=fetch.position,
        max_bytes=min(fetch.max_bytes, core.config.max_snapshot_bytes),
        **core.leader_and_epoch,
    )


# Fetcher -----------------------------------------------------------------------------------------


def begin(core: Core, role: FetcherRole, snapshot: OffsetAndEpoch) -> None:
    """Start to fetch this snapshot, as our log ends or diverges before the leader's log starts."""
    if snapshot.offset > core.log.high_watermark:
        role.download = Download(snapshot)
        fetch_next_chunk(core, role)
    else:
        # It contains nothing new: fetch again after a short backoff.
        core.arm("fetch", core.backoff(0))


def fetch_next_chunk(core: Core, role: FetcherRole) -> None:
    """Request the next chunk; after an interruption, at the same position."""
    download = role.download
    if download is None:
        return
    core.send(
        core.election.leader_id,
        SnapshotFetch(
            cluster_id=core.cluster_id,
            replica=core.me,
            epoch=core.election.epoch,
            id=download.id,
            position=download.position,
            max_bytes=core.config.max_snapshot_bytes,
        ),
    )


def apply(core: Core, role: FetcherRole, chunk: SnapshotChunk) -> bool:
    """Apply a chunk; return False if the download is abandoned, so that a normal fetch follows."""
    download = role.download
    if chunk.error or download is None or chunk.id != download.id:
        role.download = None
        return False
    if chunk.position != download.position or chunk.length <= 0 < chunk.size - chunk.position:
        role.download = None
        return False
    core.effect(WriteSnapshot(chunk.id, chunk.position, chunk.data))
    role.download = download.replace(position=download.position + chunk.length)
    if chunk.position + chunk.length >= chunk.size:
        core.log.installing = chunk.id
        core.effect(InstallSnapshot(chunk.id))
    else:
        fetch_next_chunk(core, role)
    return True


def on_installed(core: Core, installed: SnapshotInstalled) -> None:
    """The host has replaced the log with the snapshot and reloaded the state machine."""
    role = core.role
    assert role.name != quorum.LEADER, "a leader holds every committed record"
    core.log.replace_with_snapshot(installed.id, installed.voters)
    if core.cluster_id is None:
        fetching.learn_cluster_id(core)
    core.adapt_role()
    if core.role is role:
        role.on_snapshot_installed(core)


def on_damaged(core: Core, damaged: SnapshotDamaged) -> None:
    """The host has deleted the corrupt snapshot: fetch it again after a backoff."""
    if core.log.installing == damaged.id:
        core.log.installing = None
        core.role.on_snapshot_damaged(core)

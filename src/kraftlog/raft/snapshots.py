"""Snapshots bound the log (Q38): taken at a committed batch boundary, fetched in chunks.

The log of a replica with a snapshot starts where the snapshot ends. A fetcher whose log does not
reach there, or parts from it before, gets the snapshot's id instead of records, fetches it, puts it
in place of its log and goes on behind it.
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
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import (
        Fetch,
        Request,
        SnapshotDamaged,
        SnapshotInstalled,
        SnapshotTaken,
    )
    from kraftlog.raft.roles.fetcher import Fetcher
    from kraftlog.raft.roles.leader import Leader
    from kraftlog.types import OffsetAndEpoch


class Download(Value):
    """A snapshot on its way: so much of it is there."""

    id: OffsetAndEpoch
    position: int = 0


# The one that has it -----------------------------------------------------------------------------


def on_taken(core: RaftCore, taken: SnapshotTaken) -> None:
    """The state machine has written a snapshot: the log before it is no longer needed."""
    log, end = core.log, taken.id
    if end.offset <= log.start:
        return  # a newer one came in between
    assert end.offset <= log.high_watermark, "a snapshot holds what is committed"
    assert log.epochs.epoch_at(end.offset - 1) == end.epoch, "the epoch of its last record"
    log.drop_prefix(end)
    core.effect(DropPrefix(end.offset))


def is_needed(core: RaftCore, fetch: Fetch) -> bool:
    """Whether the fetcher's log does not meet ours: too short, or parted before our start."""
    snapshot = core.log.snapshot
    if snapshot is None or fetch.last_epoch < 0:
        return fetch.offset < core.log.start
    return (
        fetch.offset < snapshot.offset
        or fetch.last_epoch < snapshot.epoch
        or (fetch.offset == snapshot.offset and fetch.last_epoch != snapshot.epoch)
    )


def on_fetch(core: RaftCore, leader: Leader, asked: Request, fetch: SnapshotFetch) -> None:
    """A leader answers with a place in the snapshot; its host fills in the bytes."""
    error = leader.refusal_of(core, fetch.cluster_id, fetch.epoch)
    if not error:
        leader.progress.heard(fetch.replica, core.now)
        if fetch.max_bytes < 0:
            error = ErrorCode.INVALID_REQUEST
        elif fetch.id != core.log.snapshot:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif fetch.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    core.reply(asked.slot, refusal(core, fetch, error))


def refusal(core: RaftCore, fetch: SnapshotFetch, error: int) -> SnapshotChunk:
    """Also what is no refusal: then the host fills in size and data."""
    return SnapshotChunk(
        error=error,
        id=fetch.id,
        position=fetch.position,
        max_bytes=min(fetch.max_bytes, core.config.max_snapshot_bytes),
        **core.leader_and_epoch,
    )


# The one that lacks it ---------------------------------------------------------------------------


def begin(core: RaftCore, role: Fetcher, snapshot: OffsetAndEpoch) -> None:
    """The leader says that its log starts behind ours, at this snapshot."""
    if snapshot.offset > core.log.high_watermark:
        role.download = Download(snapshot)
        go_on(core, role)
    else:
        # It holds nothing that we lack: an ordinary fetch, a moment later.
        core.arm("fetch", core.backoff(0))


def go_on(core: RaftCore, role: Fetcher) -> None:
    """Ask for the next chunk; after an interruption, from where it stopped."""
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


def take(core: RaftCore, role: Fetcher, chunk: SnapshotChunk) -> bool:
    """What an answer does; False: the download is abandoned and an ordinary fetch follows."""
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
        go_on(core, role)
    return True


def on_installed(core: RaftCore, installed: SnapshotInstalled) -> None:
    """The host has put the snapshot in place of the log and reloaded the state machine."""
    role = core.role
    assert role.name != quorum.LEADER, "who leads holds all that is committed"
    core.log.start_at(installed.id, installed.voters)
    if core.cluster_id is None:
        fetching.learn_cluster_id(core)
    core.settle_voters()
    if core.role is role:
        role.on_snapshot_installed(core)


def on_damaged(core: RaftCore, damaged: SnapshotDamaged) -> None:
    """The host has thrown the snapshot away: fetch it again, after a while."""
    if core.log.installing == damaged.id:
        core.log.installing = None
        core.role.on_snapshot_damaged(core)

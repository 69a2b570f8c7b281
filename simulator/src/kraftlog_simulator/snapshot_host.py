"""A simulated host's part of snapshots: taking, serving and installing them, and crashes.

`docs/understand/quorum.md` has the order of the disk operations, and how a start handles each state
that a crash may leave; the real host does the same.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import Fetch, SnapshotFetch, SnapshotInstalled, SnapshotTaken
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator import snapshot
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.messages import DropPrefix, InstallSnapshot, SnapshotChunk, WriteSnapshot
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.snapshot import Snapshot

#: The invariant that this module's violations name.
NAME = "snapshot download"
#: How long the state machine may take to write a snapshot, while the log continues.
LONGEST_WRITE_MS = 60
#: How long an obsolete log prefix may remain.
LATEST_DROP_MS = 500
#: The rate of crashes during an installation, on replicas that may crash at any point; high,
#: because installations are rare.
INSTALL_CRASH_PERMILLE = 700


class SnapshotWork:
    """The snapshots in progress in one incarnation."""

    def __init__(self) -> None:
        self.taking: Snapshot | None = None
        self.installing: Snapshot | None = None
        #: The last requested chunk.
        self.last_chunk: tuple[OffsetAndEpoch, int] | None = None


# Taking ------------------------------------------------------------------------------------------


def take_at_random_times(world: SimulatedWorld) -> None:
    """Take snapshots at random replicas and times, until faults have stopped."""
    low, high = world.setting.snapshot_gap_ms
    if not high or world.healed:
        return
    world.schedule(world.time + world.snapshot_rng.between(low, high), take_at_random_times, world)
    running = [replica for replica in world.running if not replica.paused]
    if running:
        world.snapshot_rng.pick(running).take_snapshot()


def take(replica: Replica) -> None:
    """Take a snapshot of the current state, at a committed batch boundary (Q38)."""
    core, work, world = replica.core, replica.snapshots, replica.world
    assert core is not None, "only a running process takes a snapshot"
    end = replica.applied
    if work.taking is not None or end <= core.log.start:
        return
    epoch = core.log.epochs.epoch_at(end - 1)
    voters = core.log.voters.committed(end)
    work.taking = snapshot.encode_snapshot(
        OffsetAndEpoch(end, epoch), replica.state, voters, replica.id
    )
    wait = 1 + world.disk_ms(replica) + world.snapshot_rng.below(LONGEST_WRITE_MS)
    world.schedule(world.time + wait, _taken, replica, replica.incarnation)


def _taken(replica: Replica, incarnation: int) -> None:
    if incarnation != replica.incarnation or replica.core is None:
        return
    if replica.paused:
        replica.waiting.append((_taken, (replica, incarnation)))
        return
    if replica.world.disk_fails(replica):
        return
    work = replica.snapshots
    taken, work.taking = work.taking, None
    assert taken is not None
    replica.disk.add_snapshot(taken)
    replica.world.saw("snapshot taken")
    replica.handle(SnapshotTaken(taken.id))


def drop_prefix(replica: Replica, effect: DropPrefix) -> None:
    """Delete the log before the snapshot, at once or later."""
    world = replica.world
    if world.snapshot_rng.below(2):
        replica.disk.drop_prefix(effect.offset)
    else:
        when = world.time + world.snapshot_rng.below(LATEST_DROP_MS)
        world.schedule(when, _drop_late, replica, replica.incarnation, effect.offset)


def _drop_late(replica: Replica, incarnation: int, offset: int) -> None:
    if incarnation == replica.incarnation:
        replica.disk.drop_prefix(offset)


# Serving ---------------------------------------------------------------------------------------


def fill(replica: Replica, chunk: SnapshotChunk) -> None:
    """Fill in the bytes of a chunk that the core serves."""
    kept = replica.disk.snapshot
    if kept is None or kept.id != chunk.id:
        raise Violation(NAME, f"replica {replica.id} has {kept}, its core serves {chunk.id}")
    if chunk.position >= len(kept.data):
        chunk.error = ErrorCode.POSITION_OUT_OF_RANGE
        return
    max_bytes = min(chunk.max_bytes, replica.world.setting.chunk_bytes)
    chunk.size = len(kept.data)
    chunk.data = kept.data[chunk.position : chunk.position + max_bytes]
    chunk.length = len(chunk.data)


# Fetching ----------------------------------------------------------------------------------------


def note_request(replica: Replica, body: Any) -> None:
    """Note a request that is sent during a download: a Fetch abandons the download."""
    work, disk, world = replica.snapshots, replica.disk, replica.world
    if isinstance(body, SnapshotFetch):
        chunk = body.id, body.position
        if chunk == work.last_chunk:
            world.saw("download resumed")
        work.last_chunk = chunk
    elif isinstance(body, Fetch) and work.installing is None:
        world.saw("download abandoned")
        disk.download = None


def write(replica: Replica, effect: WriteSnapshot) -> None:
    """Write a chunk of a download; the first chunk begins a new file."""
    disk = replica.disk
    replica.world.progress += 1
    if effect.position == 0:
        disk.download = effect.id, b""
    if disk.download is None or disk.download[0] != effect.id:
        raise Violation(
            NAME, f"replica {replica.id} gets a chunk of {effect.id}, not of {disk.download}"
        )
    written = disk.download[1]
    if len(written) != effect.position:
        raise Violation(
            NAME, f"replica {replica.id} has {len(written)} bytes, the next chunk is {effect}"
        )
    disk.download = effect.id, written + effect.data


def install(replica: Replica, effect: InstallSnapshot) -> None:
    """Verify the snapshot, sync it, and replace the log with it; that takes some time."""
    world, disk = replica.world, replica.disk
    assert disk.download is not None, "a snapshot is installed after its download"
    whole = snapshot.decode_snapshot(disk.download[1])
    if whole is None or whole.id != effect.id:
        raise Violation(NAME, f"replica {replica.id}: {effect.id} differs from what was written")
    replica.snapshots.installing = whole
    world.progress += 1
    world.schedule(
        world.time + 1 + world.disk_ms(replica), _installed, replica, replica.incarnation
    )


def _installed(replica: Replica, incarnation: int) -> None:
    if incarnation != replica.incarnation or replica.core is None:
        return
    if replica.paused:
        replica.waiting.append((_installed, (replica, incarnation)))
        return
    world, whole = replica.world, replica.snapshots.installing
    assert whole is not None
    if world.disk_fails(replica) or world.crashes_at(replica, INSTALL_CRASH_PERMILLE):
        return
    world.loads(replica, whole)
    put_in_place(replica, whole)
    world.saw("snapshot installed")
    replica.snapshots.installing = None
    replica.handle(SnapshotInstalled(whole.id, whole.voters))


def put_in_place(replica: Replica, whole: Snapshot) -> None:
    replica.disk.download = None
    replica.disk.add_snapshot(whole)
    replica.disk.replace_log(whole, *replica.world.oracle.log_of(whole.state))
    replica.load(whole)


# Crashes -----------------------------------------------------------------------------------------


def crash(replica: Replica, rng: Rng) -> None:
    """The process ends: an operation in progress is done, not done, or lacks its last step."""
    work, disk, world = replica.snapshots, replica.disk, replica.world
    if work.taking is not None and rng.below(2):
        disk.add_snapshot(work.taking)
    if work.installing is None:
        return
    world.saw("crash while installing a snapshot")
    steps = rng.below(3)
    if steps >= 1:
        disk.add_snapshot(work.installing)
        disk.download = None
    if steps == 2:
        disk.replace_log(work.installing, *world.oracle.log_of(work.installing.state))


def recover(replica: Replica) -> None:
    """Recover at a start: delete unfinished downloads.

    A log that ends or diverges before the snapshot's end is replaced by the snapshot; any other
    log is dropped up to that end.
    """
    disk, world = replica.disk, replica.world
    if disk.download is not None:
        world.saw("unfinished download removed")
        disk.download = None
    kept = disk.snapshot
    if kept is None:
        return
    if disk.reaches(kept.id):
        disk.drop_prefix(kept.id.offset)
    else:
        world.saw("log replaced by its snapshot at a start")
        disk.replace_log(kept, *world.oracle.log_of(kept.state))
    replica.load(kept)

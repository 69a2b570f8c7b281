"""Disk faults: slow, full or failing disks, and disks that lose durable data.

A replica whose disk lost durable data restarts only when the quorum can survive the loss
(`survivable`): no protocol of this kind survives such a loss on more than a minority.
"""

from __future__ import annotations

from kraftlog.raft.messages import ElectionState
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.faults.fault_targets import end_fault, some_replica
from kraftlog_simulator.faults.survivable import may_forget

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng

    Kind = Callable[[SimulatedWorld, Rng, int], None]


class DiskLoss(Value):
    """What is left of a disk: some batches and an election state.

    `what` names the loss in the coverage, `kept` is the number of batches. Without `election`, only
    the epoch of the last batch is known.
    """

    what: str
    kept: int
    election: Any = None


# Disks that are slow or report errors -------------------------------------------------------------


def slow_disk(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    world.slow_disks[victim.id] = rng.between(1, 300)
    world.schedule(world.time + for_ms, end_fault, world.slow_disks, victim)


def failing_disk(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Syncs fail; the process ends and restarts with the data that was synced before."""
    victim = some_replica(world, rng)
    world.slow_disks[victim.id] = 2  # an error needs a disk operation in progress
    world.failing_disks[victim.id] = rng.between(10, 300)
    world.schedule(world.time + for_ms, end_fault, world.failing_disks, victim)
    world.schedule(world.time + for_ms, end_fault, world.slow_disks, victim)


def full_disk(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """The disk has space for a few more batches; then the process ends.

    A core cannot take back an append. The peers notice at once that the process has ended, and
    elect another leader if needed.
    """
    victim = some_replica(world, rng)
    world.room[victim.id] = len(victim.disk.batches) + rng.below(20)
    world.schedule(world.time + for_ms, end_fault, world.room, victim)


def failing_writes(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Writes fail with EIO: their effect is unknown, so the process ends and recovers."""
    victim = some_replica(world, rng)
    world.write_errors[victim.id] = rng.between(5, 200)
    world.schedule(world.time + for_ms, end_fault, world.write_errors, victim)


# Disks that lose data -----------------------------------------------------------------------------


def wipe_disk(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """A replica restarts with an empty disk, in a new directory."""
    _lose_disk(world, rng, for_ms, lambda _: DiskLoss("disk wiped", 0))


def old_disk(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """A replica restarts with an old copy of its log and election state."""
    _lose_disk(
        world,
        rng,
        for_ms,
        lambda victim: DiskLoss(
            "disk went back to an old copy", rng.below(len(victim.disk.batches) + 1)
        ),
    )


def lost_writes(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """A stale sector: durable writes are missing after a power loss."""

    def loss(victim: Replica) -> DiskLoss:
        disk = victim.disk
        kept = max(disk.durable - 1 - rng.below(5), disk.dropped, 1)
        return DiskLoss("writes lost that were reported as done", kept, disk.election)

    _lose_disk(world, rng, for_ms, loss)


def flipped_bit(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """A bit flips in a stored batch, which the next start detects.

    In the last batch it looks like a torn write, and the batch is truncated. Anywhere else it is
    corruption, so the directory is replaced by a new one.
    """

    def loss(victim: Replica) -> DiskLoss:
        disk = victim.disk
        log_batches = len(disk.batches) - disk.dropped
        is_last = log_batches > 0 and rng.below(2) == 0
        if is_last and len(disk.batches) > 1:
            return DiskLoss("damaged tail cut off", len(disk.batches) - 1, disk.election)
        return DiskLoss("damaged log given up", 0)

    _lose_disk(world, rng, for_ms, loss)


def damaged_election(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """The election state's file is corrupt, so the directory is replaced."""
    _lose_disk(world, rng, for_ms, lambda _: DiskLoss("damaged election state given up", 0))


def old_election(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """The rename of the election state's file is lost: the previous content is back."""

    def loss(victim: Replica) -> DiskLoss:
        disk = victim.disk
        before = ElectionState(max(disk.election.epoch - 1 - rng.below(2), 0))
        return DiskLoss("election state went back", len(disk.batches), before)

    _lose_disk(world, rng, for_ms, loss)


def _lose_disk(
    world: SimulatedWorld, rng: Rng, for_ms: int, loss: Callable[[Replica], DiskLoss]
) -> None:
    victim = some_replica(world, rng)
    if victim.core is not None and victim.disk.batches:
        world.lose_power(victim)
        _restart_when_survivable(
            world, victim, victim.incarnation, loss(victim), world.time + for_ms
        )


def _restart_when_survivable(
    world: SimulatedWorld, victim: Replica, incarnation: int, loss: DiskLoss, when: int
) -> None:
    """Restart with what is left, after `when`, as soon as the quorum can survive the loss."""
    if victim.core is not None or victim.incarnation != incarnation:
        return  # it was restarted meanwhile, as when all faults end
    if world.time < when or not may_forget(world, victim, loss.kept):
        world.schedule(
            world.time + 50, _restart_when_survivable, world, victim, incarnation, loss, when
        )
        return
    world.saw(loss.what)
    victim.lose_disk(loss.kept, loss.election)
    world.start(victim)


DISK_KINDS: dict[str, Kind] = {
    "slow-disk": slow_disk,
    "failing-disk": failing_disk,
    "wiped-disk": wipe_disk,
    "old-disk": old_disk,
}
DAMAGE_KINDS: dict[str, Kind] = {
    "failing-writes": failing_writes,
    "full-disk": full_disk,
    "lost-writes": lost_writes,
    "flipped-bit": flipped_bit,
    "damaged-election": damaged_election,
    "old-election": old_election,
}

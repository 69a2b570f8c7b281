"""Chooses the targets of faults, and ends faults."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng


def some_replica(world: SimulatedWorld, rng: Rng) -> Replica:
    """A random replica; in half of the cases the leader, if there is one."""
    leader = world.leader()
    if leader is not None and rng.below(2):
        return leader
    return rng.pick(list(world.replicas.values()))


def some_ids(world: SimulatedWorld, rng: Rng) -> list[int]:
    """The ids of some replicas: at least one, and not all if there are several."""
    ids = list(world.replicas)
    return rng.some(ids, 1 + rng.below(max(len(ids) - 1, 1)))


def end_fault(faults: dict[int, int], victim: Replica) -> None:
    """End the fault of a replica; `faults` has the strength of one fault by replica id."""
    faults.pop(victim.id, None)

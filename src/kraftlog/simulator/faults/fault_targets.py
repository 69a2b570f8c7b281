"""Whom a fault strikes, and how it ends."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.simulator.replica import Replica
    from kraftlog.simulator.rng import Rng
    from kraftlog.simulator.world import World


def some_replica(world: World, rng: Rng) -> Replica:
    """Any, but the leader as often as all the others together."""
    leader = world.leader()
    if leader is not None and rng.below(2):
        return leader
    return rng.pick(list(world.replicas.values()))


def some_ids(world: World, rng: Rng) -> list[int]:
    """At least one, not all."""
    everybody = list(world.replicas)
    return rng.some(everybody, 1 + rng.below(max(len(everybody) - 1, 1)))


def forget(rates: dict[int, int], victim: Replica) -> None:
    """A fault of this replica is over."""
    rates.pop(victim.id, None)

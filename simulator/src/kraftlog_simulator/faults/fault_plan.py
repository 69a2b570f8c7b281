"""The fault plan of a run, drawn from the seed before the run begins.

Swarm testing: each seed draws a subset of the kinds and a frequency for each, so that both rare
combinations and quiet phases occur. The entries of a plan are independent, so a plan can be shrunk
by dropping entries.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.faults.fault_kinds import (
    COMMON_KINDS,
    CORRUPTION_KINDS,
    FALSE_INFORMATION,
    KINDS,
)
from kraftlog_simulator.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from kraftlog_simulator.interfaces import SimulatedWorld

#: How many faults of one kind a plan has at most.
MAX_PER_KIND = 4
#: The longest fault: beyond every timeout.
MAX_FAULT_MS = 6000


class Fault(Value):
    """A planned fault; `detail_seed` decides its details when it strikes."""

    number: int
    kind: str
    at_ms: int
    for_ms: int
    detail_seed: int

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} at {self.at_ms} for {self.for_ms} ms"


def draw(seed: int, duration_ms: int, kinds: Collection[str] | None = None) -> tuple[Fault, ...]:
    """The plan of a seed; `kinds` limits it to some kinds of faults.

    Without `kinds`, half of the seeds also have corruption, and a third false information about
    peers. Each of these groups is drawn separately: the rest of the plan does not depend on it.
    """
    corruption, false_information = Rng(seed, "damage"), Rng(seed, "lies")
    wants_corruption = corruption.below(2) == 1 or kinds is not None
    wants_false_information = false_information.below(3) == 0 or kinds is not None
    plan = [
        *draw_faults(Rng(seed, "faults"), COMMON_KINDS, duration_ms, kinds),
        *(
            draw_faults(corruption, CORRUPTION_KINDS, duration_ms, kinds)
            if wants_corruption
            else ()
        ),
        *(
            draw_faults(false_information, FALSE_INFORMATION, duration_ms, kinds)
            if wants_false_information
            else ()
        ),
    ]
    return in_order(plan)


def in_order(plan: Iterable[tuple[int, str, int, int]]) -> tuple[Fault, ...]:
    """The faults, given as they were drawn, numbered in the order of their times."""
    return tuple(
        [
            Fault(number, kind, at_ms, for_ms, detail_seed)
            for number, (at_ms, kind, for_ms, detail_seed) in enumerate(sorted(plan))
        ]
    )


def draw_faults(
    rng: Rng, choices: Iterable[str], duration_ms: int, kinds: Collection[str] | None
) -> Iterator[tuple[int, str, int, int]]:
    """Draw faults of some of these kinds: their times, kinds, durations and detail seeds."""
    names = list(choices)
    chosen = rng.some(names, 1 + rng.below(len(names) // 2))
    if kinds is not None:
        chosen = [name for name in names if name in kinds]
    for kind in chosen:
        for _ in range(1 + rng.below(MAX_PER_KIND)):
            at_ms = rng.below(duration_ms)
            for_ms = 20 + rng.long_tail(rng.below(2500))
            yield at_ms, kind, min(for_ms, MAX_FAULT_MS), rng.bits(32)


def schedule(
    world: SimulatedWorld, plan: Iterable[Fault], kinds: Mapping[str, Any] = KINDS
) -> None:
    for fault in plan:
        world.schedule(world.time + fault.at_ms, _strike, world, fault, kinds)


def _strike(world: SimulatedWorld, fault: Fault, kinds: Mapping[str, Any]) -> None:
    if world.healed:
        return
    world.note(None, "fault", fault)
    world.saw(f"fault: {fault.kind}")
    kinds[fault.kind](world, Rng(fault.detail_seed, fault.kind), fault.for_ms)


def heal(world: SimulatedWorld) -> None:
    """End all faults: every replica runs and reaches every other."""
    world.healed = True
    world.network.heal()
    world.slow_disks.clear()
    world.failing_disks.clear()
    world.write_errors.clear()
    world.room.clear()
    world.crash_permille.clear()
    world.batches_per_fetch = 1000
    for replica in world.replicas.values():
        if replica.clock_rate != 1000:
            replica.set_rate(1000)
        if replica.paused:
            replica.resume()
        world.start(replica)

"""How fast the simulator is: Kafka's seven scenarios in Kafka's times, and the random mixture.

All invariants are on, on one core. Kafka's own simulator, with its append rate and latencies, was
measured at 19,459 of its scenarios per CPU hour, of 14,300 events and 7.3 virtual seconds each.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kraftlog.simulator.run import simulate
from kraftlog.simulator.scenarios import KAFKA_MIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEEDS = 20


def played(scenarios: Sequence[str]) -> tuple[float, int, int, int, int]:
    """CPU seconds, runs, events, steps and virtual ms of many runs."""
    events = steps = virtual_ms = 0
    start = time.process_time()
    for name in scenarios:
        for seed in range(1, SEEDS + 1):
            outcome = simulate(name, seed)
            assert not outcome.failed, str(outcome)
            events += outcome.events
            steps += outcome.steps
            virtual_ms += outcome.time_ms
    return time.process_time() - start, len(scenarios) * SEEDS, events, steps, virtual_ms


def cases() -> Iterator[tuple[str, float, str]]:
    """Every figure: name, value, unit."""
    for what, scenarios in (("Kafka's seven scenarios", KAFKA_MIX), ("mixture", ("mixture",) * 3)):
        spent, runs, events, steps, virtual_ms = played(scenarios)
        yield f"{what}", 3600 * runs / spent, "scenarios/CPU-h"
        yield f"{what}: events", events / spent, "1/s"
        yield f"{what}: virtual time", virtual_ms / 1000 / spent, "s/CPU-s"
        yield f"{what}: virtual time of a scenario", virtual_ms / 1000 / runs, "s"
        yield f"{what}: a core's event, with all around it", 1e6 * spent / steps, "µs"

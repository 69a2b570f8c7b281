"""The controller lets a follower join the ISR for what an earlier process of it had (V8, V23)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.isr",
    source="broker is not None and broker.active and epoch in (ANY_EPOCH, broker.epoch)",
    replacement="broker is not None and broker.active",
    scenario="cluster",
    seed=28,
    faults="restart-race",
)

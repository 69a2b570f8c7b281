"""A fenced broker stays in its ISRs (V2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.elections",
    source=("    keys = state.index.in_isr.get(broker_id, {})\n    if directories"),
    replacement=("    keys = {}\n    if directories"),
    scenario="cluster",
    seed=1,
)

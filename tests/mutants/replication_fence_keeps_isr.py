"""A fenced broker stays in its ISRs (V2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.elections",
    source="    return _remove_broker(state, broker_id, keys, lost_directory=lost_directory)",
    replacement="    return []",
    scenario="cluster",
    seed=1,
)

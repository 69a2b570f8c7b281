"""A log that moves is deleted before the controller has recorded its new directory (V22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_moves",
    source="elif is_recorded(node, move.name, copy.topic_id, target.id) and ",
    replacement="elif ",
    scenario="cluster",
    seed=2,
    faults="moved-log,failing-directory",
)

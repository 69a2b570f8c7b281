"""A node starts although no snapshot covers the records before its log start (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.recovered_log",
    source="    if log.start_offset > (0 if newest is None else newest.end.offset):",
    replacement="    if log.start_offset < 0:",
    scenario="lost-checkpoint",
    seed=1,
    nodes=True,
)

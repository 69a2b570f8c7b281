"""A log without leader epochs counts as one of any partition of its number (V23)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.storage.log_folder",
    source="        return log.end_offset == 0",
    replacement="        return True",
    scenario="cluster",
    seed=5,
    faults="emptied-log",
)

"""Truncation keeps the epochs of the records that it removes (Q7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="        self.epochs.truncate_from_end(end)",
    replacement="        pass",
    scenario="parted-logs",
    seed=1,
)

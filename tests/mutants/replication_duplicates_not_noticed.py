"""A leader checks no producer epoch or sequence, so it appends duplicate batches."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="return producers.check(header, self.producers_known_from)",
    replacement="return ErrorCode.NONE",
    scenario="cluster",
    seed=1,
)

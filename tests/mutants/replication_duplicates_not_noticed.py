"""A leader checks no producer epoch or sequence, so it appends duplicate batches."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="return ErrorCode.NONE if self.producers is None else self.producers.check(header)",
    replacement="return ErrorCode.NONE",
    scenario="cluster",
    seed=1,
)

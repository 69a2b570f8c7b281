"""A leader appends a batch of an idempotent producer again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="return ErrorCode.NONE if self.producers is None else self.producers.check(header)",
    replacement="return ErrorCode.NONE",
    scenario="cluster",
    seed=1,
)

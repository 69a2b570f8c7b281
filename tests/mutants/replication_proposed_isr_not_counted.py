"""A leader counts the ISR that it has proposed instead of both (V7, S3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="(*self.isr, *[broker for broker in self.proposed.isr if broker not in self.isr])",
    replacement="self.proposed.isr",
    scenario="cluster",
    seed=1,
)

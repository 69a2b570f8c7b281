"""A leader counts only the ISR that it has proposed, not also the committed one (V7, S3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="(*self.isr, *[broker for broker in self.proposed.isr if broker not in self.isr])",
    replacement="self.proposed.isr",
    scenario="cluster",
    seed=1,
)

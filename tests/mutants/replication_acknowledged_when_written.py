"""A produce with acks=all is acknowledged once the leader has written it (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="if delayed.offset > self.high_watermark:",
    replacement="if delayed.offset > self.written_end:",
    scenario="cluster",
    seed=1,
)

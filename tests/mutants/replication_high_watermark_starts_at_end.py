"""A replica starts with the end of its log as high watermark (V15)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="        self.high_watermark = min(max(high_watermark, start), end)",
    replacement="        self.high_watermark = end",
    scenario="cluster",
    seed=1,
)

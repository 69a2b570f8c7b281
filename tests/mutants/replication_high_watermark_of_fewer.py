"""The high watermark leaves out one follower that counts (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="            high_watermark = min([partition.written_end, *ends])",
    replacement="            high_watermark = min([partition.written_end, *ends[1:]])",
    scenario="cluster",
    seed=1,
)

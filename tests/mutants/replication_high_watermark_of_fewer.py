"""The high watermark does not wait for one of the followers that count (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="            high_watermark = min([partition.written_end, *ends])",
    replacement="            high_watermark = min([partition.written_end, *ends[1:]])",
    scenario="cluster",
    seed=1,
)

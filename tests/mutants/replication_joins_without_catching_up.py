"""A follower joins the ISR however much it lags (V8)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="            and follower.end >= max(partition.high_watermark, followers.epoch_start)",
    replacement="            and follower.end >= 0",
    scenario="cluster",
    seed=9,
)

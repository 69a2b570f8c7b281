"""A follower joins the ISR before it reaches the leader epoch's start (KAFKA-7128, V8)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="and follower.end >= max(partition.high_watermark, followers.epoch_start)",
    replacement="and follower.end >= partition.high_watermark",
    scenario="cluster",
    seed=187,
    test=(
        "tests/replication/test_isr.py"
        "::test_v8_kafka_7128_follower_joins_past_the_epochs_start_only"
    ),
)

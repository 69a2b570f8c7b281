"""A leader that is alone in the ISR commits what it has not written yet (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="            high_watermark = min([partition.written_end, *ends])",
    replacement="            high_watermark = min(ends, default=partition.end)",
    test=(
        "tests/replication/test_high_watermark.py::"
        "test_v7_leader_alone_in_the_isr_commits_only_what_it_has_written"
    ),
)

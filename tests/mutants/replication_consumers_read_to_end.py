"""Consumers read beyond the high watermark (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.fetch.reader",
    source="return partition.written_end if self.is_follower else partition.high_watermark",
    replacement="return partition.written_end",
    scenario="cluster",
    seed=1,
)

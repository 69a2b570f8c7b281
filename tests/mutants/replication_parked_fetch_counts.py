"""A follower's delayed fetch counts, when answered, as having received what it is sent (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.handlers.follower_read",
    source="            sent_bytes.append((partition.counts, length))",
    replacement="""\
            sent_bytes.append((partition.counts, length))
            manager.in_sync_replicas.fetched(
                partition, *fetch.follower, end, part.log_start_offset
            )""",
    scenario="cluster",
    seed=1,
)

"""A follower counts as having the log end once its delayed fetch is answered (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.fetch.follower_read",
    source="            sent_bytes.append((partition.counts, length))",
    replacement="""\
            sent_bytes.append((partition.counts, length))
            manager.in_sync_replicas.fetched(
                partition, *reading.reader.follower, end, part.log_start_offset
            )""",
    scenario="cluster",
    seed=1,
)

"""A follower truncates to its own high watermark, as before KIP-101 (V6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.replica_fetchers",
    source=("        self._by_partition[partition] = fetcher\n        fetcher.add(partition)\n"),
    replacement=(
        "        self._by_partition[partition] = fetcher\n"
        "        fetcher.add(partition)\n"
        "        followed = fetcher.followed[partition.topic_id, partition.index]\n"
        "        if partition.high_watermark < partition.end and not partition.is_truncating:\n"
        "            self._truncate(fetcher, followed, partition.high_watermark, 'mutant')\n"
    ),
    scenario="cluster",
    seed=9,
)

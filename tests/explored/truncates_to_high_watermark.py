"""Breaks V6, as before KIP-101: a new follower truncates its log to its own high watermark."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V6, as before KIP-101: a new follower truncates its log to its own high watermark",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.replication.replica_fetchers",
    original="""\
        fetcher.add(partition)

    def stop""",
    replacement="""\
        fetcher.add(partition)
        if partition.high_watermark < partition.end:
            followed = fetcher.followed[partition.topic_id, partition.index]
            self._truncate(fetcher, followed, partition.high_watermark, "it follows")

    def stop""",
    explores=REPLICATION,
    bound={"records": 1, "fencings": 1},
)

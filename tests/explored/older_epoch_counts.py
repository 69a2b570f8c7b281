"""Breaks V7 as KIP-320's first design did: a leader counts a follower's fetch in an older epoch."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V7, as KIP-320's first design: a fetch in an older epoch moves the high watermark",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.replication.partition",
    original="            if leader_epoch < self.leader_epoch:",
    replacement="            if False:",
    explores=REPLICATION,
    bound={"replicas": (1, 0, 2), "records": 1, "fencings": 1, "elections": 1},
)

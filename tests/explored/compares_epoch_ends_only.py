"""Breaks V6 as KIP-101 does: a leader without the follower's epoch compares only epoch ends."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V6, as KIP-101 before KIP-279: a leader without the follower's epoch compares ends",
    detected_by="what is committed never changes",
    module="kraftlog.node.fetch.reader",
    original="if epoch == part.last_fetched_epoch and part.fetch_offset <= end:",
    replacement="if part.fetch_offset <= end:",
    explores=REPLICATION,
    bound={"records": 2, "fencings": 2},
    is_slow=True,
)

"""Breaks Q21: one voter fewer than a majority commits."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q21: one voter fewer than a majority commits",
    detected_by="what is committed is durable on a majority",
    module="kraftlog.raft.progress",
    original="return sorted(ends, reverse=True)[voters.majority - 1]",
    replacement="return sorted(ends, reverse=True)[voters.majority - 2]",
    bound={"epochs": 1, "records": 0, "crashes": (0, 0, 0)},
)

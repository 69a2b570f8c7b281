"""Breaks Q19: truncated records stay on disk."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q19: truncated records stay on disk",
    detected_by="the core knows its log",
    module="kraftlog.raft.fetching",
    original="core.effect(Truncate(end))",
    replacement="pass",
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)

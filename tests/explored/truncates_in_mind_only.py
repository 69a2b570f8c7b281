"""Q19: what is truncated stays on disk."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    rule="Q19: what is truncated stays on disk",
    missed_by="the core knows its log",
    module="kraftlog.raft.fetching",
    original="core.effect(Truncate(end))",
    replacement="pass",
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)

"""Truncation does not lower the flushed offset, so later records count as durable (Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="""\
        self.flushed = min(self.flushed, end)
""",
    replacement="",
    scenario="parted-logs",
    seed=1,
)

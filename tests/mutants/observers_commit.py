"""Observers count towards the high watermark (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="""\
        ends = []
""",
    replacement="""\
        ends = [p.end_offset for k, p in self.replicas.items() if not voters.holds(k)]
""",
    scenario="mixture",
    seed=1,
)

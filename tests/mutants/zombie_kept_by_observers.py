"""Observers keep a leader from resigning (Q11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="""\
        times = []
""",
    replacement="""\
        times = [p.fetched_at for k, p in self.replicas.items() if not voters.holds(k)]
""",
    scenario="cut-off-leader",
    seed=4,
)

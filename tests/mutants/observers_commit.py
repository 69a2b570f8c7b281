"""Observers count towards the high watermark (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="""\
        return sorted(ends, reverse=True)[voters.majority - 1]

    def majority_heard_at""",
    replacement="""\
        ends += [p.end_offset for k, p in self.replicas.items() if not voters.holds(k)]
        return sorted(ends, reverse=True)[voters.majority - 1]

    def majority_heard_at""",
    scenario="mixture",
    seed=1,
)

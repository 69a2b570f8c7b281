"""KAFKA-16530: a leader that has removed itself counts towards the majority."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="        return sorted(ends, reverse=True)[voters.majority - 1]",
    replacement="""\
        ends += [] if voters.voter(me.id) else [my_end]
        return sorted(ends, reverse=True)[voters.majority - 1]""",
    scenario="leader-removes-itself",
    seed=1,
)

"""A leader that is no voter any more still counts itself among those that follow it (Q11, R5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="        return sorted(times, reverse=True)[voters.majority - 1]",
    replacement="""\
        times += [] if voters.voter(me.id) else [now]
        return sorted(times, reverse=True)[voters.majority - 1]""",
    scenario="removes-itself-alone",
    seed=1,
)

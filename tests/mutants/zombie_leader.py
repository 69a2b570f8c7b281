"""A leader without a majority never resigns (Q11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
        if core.others:
            heard = self.majority_heard_at(core)""",
    replacement="""\
        if False:
            heard = self.majority_heard_at(core)""",
    scenario="cut-off-leader",
    seed=1,
)

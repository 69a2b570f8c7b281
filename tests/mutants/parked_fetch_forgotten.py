"""A parked fetch is not answered when its time has come (Q20)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
            self.answer_parked(core)
        elif name.startswith("tell ")""",
    replacement="""\
            pass
        elif name.startswith("tell ")""",
    scenario="cut-off-follower",
    seed=1,
)

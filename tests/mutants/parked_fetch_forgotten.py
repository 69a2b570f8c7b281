"""A parked fetch is not answered at its deadline (Q20)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
            self.complete_parked(core)
        elif name.startswith("begin-epoch ")""",
    replacement="""\
            pass
        elif name.startswith("begin-epoch ")""",
    scenario="cut-off-follower",
    seed=1,
)

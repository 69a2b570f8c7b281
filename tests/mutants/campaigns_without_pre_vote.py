"""A follower that lost its leader campaigns without a pre-vote (P1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.follower",
    source="""\
        if name == "fetch timeout":
            core.become(quorum.PROSPECTIVE)""",
    replacement="""\
        if name == "fetch timeout":
            self.on_succession(core, 0)""",
    scenario="mixture",
    seed=1,
)

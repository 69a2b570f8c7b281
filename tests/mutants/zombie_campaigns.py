"""A leader without a majority starts an election at once, without pre-votes (Q11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
                core.become(quorum.RESIGNED)
            else:""",
    replacement="""\
                core.become(quorum.RESIGNED)
                core.become(quorum.PROSPECTIVE)
                core.role.on_won(core)
            else:""",
    scenario="mixture",
    seed=34,
)

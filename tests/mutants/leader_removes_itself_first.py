"""A leader that is not in the target removes itself, and does so first (R3, R5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="""\
        others = [v for v in surplus if v != core.me.id]
        if others:
""",
    replacement="""\
        others = [v for v in surplus if v != core.me.id]
        if core.me.id in surplus:
            append_voters(core, leader, voters.without_voter(core.me.id))
        elif others:
""",
    scenario="move",
    seed=1,
)

"""A leader that has removed itself counts as proof of a read (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
        return proofs >= voters.majority
""",
    replacement="""\
        return proofs + (core.me.id not in voters.ids) >= voters.majority
""",
    scenario="removed-leader-reads",
    seed=4,
)

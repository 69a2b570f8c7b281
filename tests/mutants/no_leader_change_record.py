"""A new leader appends no LeaderChange record (Q14)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
        self.append_leader_change(core)
""",
    replacement="",
    scenario="mixture",
    seed=1,
)

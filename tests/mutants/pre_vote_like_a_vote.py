"""A replica that voted for another one or knows the epoch's leader refuses pre-votes (P2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="""\
        return not core.role.has_live_leader(core)
    if core.election.leader_id >= 0:""",
    replacement="""\
        if core.role.has_live_leader(core):
            return False
    if core.election.leader_id >= 0:""",
    scenario="mixture",
    seed=3,
)

"""A leader that seemed dead, and is not a voter in this replica's log, is not asked again (Q24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.unattached",
    source="    controllers += [i for i in lost if i not in controllers]\n",
    replacement="",
    test="tests/raft/test_leader_gone.py"
    "::test_q24_a_leader_that_seemed_dead_and_is_no_known_voter_is_asked",
)

"""A follower votes in an epoch whose leader it knows (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="""\
    if core.election.leader_id >= 0:
        return False
""",
    replacement="",
    equivalent=(
        "A leader is known only if a majority has voted for it, and a replica votes once: the "
        "other votes are no majority for another candidate of that epoch. The rule only saves "
        "a candidate a useless wait."
    ),
)

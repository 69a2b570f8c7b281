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
        "A leader is known only where a majority has given it its votes, and a vote is given once: "
        "what the others may still give to another candidate of that epoch is no majority. The "
        "rule saves a candidate a vain wait, nothing more."
    ),
)

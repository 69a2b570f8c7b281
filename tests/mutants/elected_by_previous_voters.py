"""A candidate needs a majority of the last committed voters, not of those in force (R1, Q13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.voter_poll",
    source="""\
        voters = core.log.voter_set
""",
    replacement="""\
        voters = core.log.voters.committed(core.log.high_watermark)
""",
    scenario="mixture",
    seed=1,
)

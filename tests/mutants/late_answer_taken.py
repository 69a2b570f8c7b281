"""The answer to an earlier request is taken for that to the newest."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
        if peer.in_flight != message.number:
            return  # of an earlier life: whoever asked does not want to know any more""",
    replacement="""\
        if peer.in_flight < 0:
            return""",
    scenario="leader-failure",
    seed=1,
)

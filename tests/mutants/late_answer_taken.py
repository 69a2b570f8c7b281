"""The answer to an earlier request is taken for that to the newest."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
        if peer.in_flight != message.number:
            return peer, None
""",
    replacement="""\
        if peer.in_flight < 0:
            return peer, None
""",
    scenario="leader-failure",
    seed=13,
)

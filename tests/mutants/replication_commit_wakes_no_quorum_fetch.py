"""A new high watermark of the quorum answers no parked fetch (Q20, V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source=(
        "            core.effect(Proposed(pending, ErrorCode.NONE, offset))\n"
        "        self.complete_parked(core)\n"
    ),
    replacement="            core.effect(Proposed(pending, ErrorCode.NONE, offset))\n",
    scenario="cluster",
    seed=1,
)

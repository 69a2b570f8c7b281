"""R1: a voter set is in force only once it is committed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="        return self.voters.latest\n",
    replacement="        return self.voters.committed(self.high_watermark)\n",
    scenario="mixture",
    seed=1,
)

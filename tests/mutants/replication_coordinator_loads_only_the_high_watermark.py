"""A coordinator reads its partition up to the high watermark that it knew as a follower."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.coordinators.group_coordinators",
    source="        self.load_end = partition.written_end\n",
    replacement="        self.load_end = partition.high_watermark\n",
    scenario="cluster",
    seed=41,
)

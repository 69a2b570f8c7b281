"""A new coordinator loads its partition to the high watermark, not to the log end."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.coordinators.group_coordinators",
    source="        self.load_end = partition.written_end\n",
    replacement="        self.load_end = partition.high_watermark\n",
    scenario="cluster",
    seed=32,
)

"""A follower serves consumers to the end of its log (KIP-392)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.fetch.reader",
    source="return partition.written_end if self.is_follower else partition.high_watermark\n",
    replacement=(
        "return (\n"
        "            partition.written_end\n"
        "            if self.is_follower or not partition.leads\n"
        "            else partition.high_watermark\n"
        "        )\n"
    ),
    scenario="cluster",
    seed=1,
)

"""A partition keeps the min.insync.replicas that it had when its log was opened (V20)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="        self.append_config = append_config\n\n    def append(",
    replacement=(
        "        least = self.append_config.min_insync_replicas\n"
        "        self.append_config = append_config.replace(min_insync_replicas=least)\n\n"
        "    def append("
    ),
    scenario="cluster",
    seed=1,
    faults="raised-minimum",
)

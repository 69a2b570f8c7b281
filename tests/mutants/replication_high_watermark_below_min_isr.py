"""The high watermark moves although the ISR is below the minimum (KIP-966)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source=(
        "        if partition.lacks_replicas:\n            partition.set_commits_at_once(False)"
    ),
    replacement=("        if False:\n            partition.set_commits_at_once(False)"),
    scenario="cluster",
    seed=1,
)

"""A node installs a fetched snapshot without verifying it (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.quorum_io",
    source="            check_snapshot(data)\n",
    replacement="            len(data)\n",
    scenario="garbled-snapshot",
    seed=18,
    nodes=True,
)

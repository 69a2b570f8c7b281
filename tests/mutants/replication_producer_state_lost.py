"""A new leader does not know the producers of its log."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source=("        self.producers = producers\n\n    def set_commits_at_once"),
    replacement=("        self.producers = None\n\n    def set_commits_at_once"),
    scenario="cluster",
    seed=2,
)

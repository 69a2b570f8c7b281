"""A new leader does not know the producers of its log."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="        self.producers = producers  # of the log, with",
    replacement="        self.producers = None  # of the log, with",
    scenario="cluster",
    seed=8,
)

"""The controller elects unclean leaders even where that is not configured (V2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="return self.state.allows_unclean_election(self.before)",
    replacement="return True",
    scenario="cluster",
    seed=2,
    test="tests/controller/test_elections.py::test_elr_a_replica_outside_the_elr_does_not_lead",
)

"""A broker that stopped uncleanly stays an eligible leader (KIP-966)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="if broker not in self.wanted.unclean",
    replacement="if broker not in ()",
    scenario="cluster",
    seed=191,
    test="tests/controller/test_elections.py::test_elr_a_broker_that_stopped_uncleanly_leaves_the_elr",
)

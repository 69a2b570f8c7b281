"""A proposed ISR that the controller refuses goes on counting (V1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.isr",
    source=(
        "            partition.withdraw_isr()\n            self._refused(partition, proposed.isr)\n"
    ),
    replacement="            self._refused(partition, proposed.isr)\n",
    test="tests/replication/test_isr.py::test_v8_refused_proposal_no_longer_counts",
)

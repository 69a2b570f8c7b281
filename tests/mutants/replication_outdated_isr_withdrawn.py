"""A proposed ISR stops counting with the response, before its record is replayed (S3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.isr",
    source="        if code == ErrorCode.NONE or code in _OUTDATED:\n",
    replacement=(
        "        if code == ErrorCode.NONE or code in _OUTDATED:\n"
        "            partition.withdraw_isr()\n"
        "            self._refused(partition, proposed.isr)\n"
    ),
    scenario="cluster",
    seed=20,
    test="tests/replication/test_isr.py::test_v8_outdated_proposal_is_not_repeated",
)

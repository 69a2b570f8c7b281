"""An AlterPartition of an earlier process of the leader is not refused for its broker epoch (V1).

No run can show it: a process that registers is removed from all ISRs that have other replicas, so
the partitions that the earlier one led have newer partition epochs, by which its requests are
refused. A partition without another replica keeps its leader, but has no ISR to propose.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.isr",
    source="if broker is None or broker.epoch != request.broker_epoch:",
    replacement="if broker is None:",
    test="tests/controller/test_isr.py::test_a_previous_incarnation_of_the_leader_is_refused",
)

"""A change of min.insync.replicas clears the ELR of partitions without a leader (V21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.eligible_replicas",
    source="    return records\n\n\ndef disable_elr",
    replacement='    return [*records, ClearElrRecord(topic_name="")]\n\n\ndef disable_elr',
    test="tests/simulator/cluster/test_replication_rules.py::test_v21_a_changed_min_isr_keeps_the_way_back",
)

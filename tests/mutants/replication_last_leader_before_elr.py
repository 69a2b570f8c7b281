"""The last known leader is elected although others are eligible (KIP-966)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="or self.isr or self.elr or len",
    replacement="or self.isr or len",
    test=("tests/controller/test_against_kafka.py::test_records_equal_those_of_kafkas_builder"),
)

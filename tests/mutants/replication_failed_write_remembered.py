"""A leader keeps the producer state of a write that failed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="self.producers.put_back(append.producers_before)",
    replacement="self.producers.put_back({})",
    test="tests/node/test_producers.py::test_a_failed_write_restores_the_producer_state",
)

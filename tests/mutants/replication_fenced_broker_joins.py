"""A fenced or stopping broker may join the ISR (V2, KIP-841)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.isr",
    source="broker is not None and broker.active and epoch in (ANY_EPOCH, broker.epoch)",
    replacement="broker is not None and epoch in (ANY_EPOCH, broker.epoch)",
    test="tests/controller/test_isr.py::test_a_fenced_or_stopping_broker_does_not_join_the_isr",
)

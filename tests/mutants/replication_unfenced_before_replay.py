"""The controller unfences a broker that has not replayed its registration (V5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source="        if stays_fenced or not caught_up:\n",
    replacement="        if stays_fenced:\n",
    test=(
        "tests/simulator/cluster/test_unfenced_brokers.py::"
        "test_v5_a_broker_that_registers_again_is_unfenced_after_its_replay"
    ),
)

"""A broker does not report at once that it knows the new leaders of one that leaves (V3, V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.broker.broker_lifecycle",
    source="            broker.in_controlled_shutdown and not broker.fenced\n",
    replacement="            broker.in_controlled_shutdown and broker.fenced\n",
    test="tests/node/broker/test_broker_lifecycle.py",
)

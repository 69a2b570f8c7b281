"""A broker may stop only when all others have applied more than the change of leaders (V3, V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source="lowest < session.shutdown_offset",
    replacement="lowest <= session.shutdown_offset + 1",
    test="tests/controller/test_brokers.py",
)

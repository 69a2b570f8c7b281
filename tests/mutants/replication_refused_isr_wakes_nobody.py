"""A leader does not look again at who counts when its proposed ISR is refused (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.isr",
    source="            partition.withdraw_isr()\n            self._refused(partition)\n",
    replacement="            partition.withdraw_isr()\n",
    test="tests/replication/test_joined_replay.py",
)

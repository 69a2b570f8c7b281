"""A leader does not look again at who counts when its proposed ISR is refused (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.isr",
    source="            self._refused(partition, proposed.isr)\n",
    replacement="",
    test="tests/replication/test_joined_replay.py",
)

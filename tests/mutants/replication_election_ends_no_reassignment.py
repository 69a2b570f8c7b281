"""An election of the replica that a reassignment waits for does not end it (V10, V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source=("            self.complete_reassignment()\n            self.elr"),
    replacement="            self.elr",
    test="tests/controller/test_reassignment.py",
)

"""Installing a snapshot keeps the epochs of the log that it replaces (Q7, Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="""\
        self.epochs.clear()
""",
    replacement="",
    scenario="snapshot-install",
    seed=1,
)

"""Offsets of a failed write are not assigned again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source=(
        "        self.open_append = None\n"
        "        self.end = self.unwritten[-1].end if self.unwritten else self.written_end\n"
        "        for append"
    ),
    replacement=("        self.open_append = None\n        for append"),
    scenario="cluster",
    seed=31,
    test=(
        "tests/replication/test_replica_manager.py"
        "::test_a_full_disk_undoes_an_append_and_those_after_it"
    ),
)

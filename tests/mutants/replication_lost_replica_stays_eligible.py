"""A replica that has lost its log stays an eligible leader (V19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.directories",
    source="if directory == DirectoryId.LOST else",
    replacement="if False else",
    test=("tests/controller/test_lost_replicas.py::test_v19_lost_replica_leaves_the_elr"),
)

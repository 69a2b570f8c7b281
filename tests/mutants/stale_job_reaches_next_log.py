"""The folder name of a deleted log is free while a flush of the log still runs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.storage.directory",
    source="            if log.is_flushing:\n                self._in_use[name] = log",
    replacement="            self._in_use.pop(name, None)",
    test=(
        "tests/runner/test_recreated_topics.py::test_a_folder_keeps_its_name_until_its_flush_ends"
    ),
)

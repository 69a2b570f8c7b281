"""Files of a deleted log are unlinked before its folder's new name is durable."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.storage.garbage",
    source="        files.sync_folder(parent)\n",
    replacement="        files.list(parent)\n",
    test="tests/runner/test_io_threads.py::test_a_deleted_log_is_unlinked_after_its_rename_is_durable",
)

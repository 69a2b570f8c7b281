"""A late request to record a directory is not corrected (V23)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.directory_assignments",
    source="        if reported != recorded and not is_reserved(reported):\n",
    replacement="        if False:\n",
    test=(
        "tests/replication/test_directory_assignments.py"
        "::test_v23_a_report_that_a_late_request_has_overwritten_is_repeated"
    ),
)

"""A registration that a former process of the broker has sent replaces the present one (V23)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source="if _is_late(before, request) or (is_alive and not _replaces(before, request)):",
    replacement="if is_alive and before and before.directories[0] not in request.log_dirs:",
    test=(
        "tests/controller/test_brokers.py"
        "::test_v23_a_late_registration_of_a_former_process_changes_nothing"
    ),
)

"""An observer that no longer fetches stays listed (D7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.describe",
    source="""\
    return progress.fetched_at >= 0 and silent_ms < OBSERVER_FORGOTTEN_MS
""",
    replacement="""\
    return progress.fetched_at >= 0 and silent_ms >= 0
""",
    test="tests/raft/test_describe.py::test_d7_a_silent_observer_disappears_and_a_silent_voter_does_not",
)

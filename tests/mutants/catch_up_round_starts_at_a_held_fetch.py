"""R4: a catch-up round begins when a fetch arrives, even if the leader holds the fetch."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="""\
            progress.in_time = True  # a round of no length
""",
    replacement="""\
            progress.round_end, progress.round_at = log_end, now.monotonic_ms
""",
    test="tests/raft/test_promotion.py::test_r4_the_time_that_a_fetch_is_held_does_not_count",
)

"""R4: an observer that caught up once is added although it no longer fetches."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="""\
        return progress.in_time and now.monotonic_ms - progress.fetched_at < within_ms
""",
    replacement="""\
        return progress.in_time
""",
    test="tests/raft/test_promotion.py::test_r4_an_observer_that_stopped_fetching_is_not_added",
)

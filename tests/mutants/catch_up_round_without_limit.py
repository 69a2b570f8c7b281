"""R4: a catch-up round may take any time."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="""\
            progress.in_time = now.monotonic_ms - progress.round_at < round_limit_ms
""",
    replacement="""\
            progress.in_time = round_limit_ms > 0
""",
    test="tests/raft/test_promotion.py::test_r4_a_round_must_take_less_than_the_election_timeout",
)

"""The backoff after a failed election is its upper bound, not a random time up to it (Q10)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.unattached",
    source="""\
        return 1 + core.jitter(jitter_purposes.ELECTION_BACKOFF, below=bound)
""",
    replacement="""\
        return bound
""",
    test="tests/raft/test_timing.py::test_q10_the_backoff_is_random",
)

"""Replicas that could not reach a peer retry at the same moment (Q24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
        return grown // 2 + self.jitter(failures, below=grown // 2 + 1)
""",
    replacement="""\
        return grown
""",
    test="tests/raft/test_timing.py::test_q24_retries_are_jittered",
)

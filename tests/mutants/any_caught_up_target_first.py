"""R3: of the caught-up targets the one with the lowest id is added first."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="""\
    return min(candidates, key=_rank)[2] if candidates else None
""",
    replacement="""\
    return candidates[0][2] if candidates else None
""",
    test="tests/raft/test_promotion.py::test_r3_the_most_caught_up_target_is_added_first",
)

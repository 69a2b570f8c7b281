"""A leader that loses leadership reports pending proposals as committed (Q11, Q25)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="            core.effect(Proposed(pending, ErrorCode.REQUEST_TIMED_OUT))",
    replacement="            core.effect(Proposed(pending, ErrorCode.NONE, core.log.end))",
    scenario="leader-failure",
    seed=2,
)

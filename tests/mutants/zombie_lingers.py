"""A leader without a majority resigns after 3 fetch timeouts instead of 1.5 (Q11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""core.timers["majority"] = heard + core.config.fetch_timeout_ms * 3 // 2""",
    replacement="""core.timers["majority"] = heard + core.config.fetch_timeout_ms * 3""",
    scenario="cut-off-leader",
    seed=1,
)

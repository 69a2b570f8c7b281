"""An error from the leader resets the fetch timeout (Q9a)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.fetcher",
    source="""\
        if not applied:
""",
    replacement="""\
        if not applied:
            core.arm("fetch timeout", core.config.fetch_timeout_ms)
            self.heard_at = core.now.monotonic_ms
""",
    scenario="mixture",
    seed=19,
)

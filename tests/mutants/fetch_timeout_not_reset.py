"""A successful response does not reset the fetch timeout (Q9a)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.fetcher",
    source="""\
        self.heard_at = core.now.monotonic_ms
        core.arm("fetch timeout", core.config.fetch_timeout_ms)""",
    replacement="        self.heard_at = core.now.monotonic_ms",
    scenario="ping-pong",
    seed=1,
)

"""A diverging fetch counts as progress (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
        diverging = core.log.divergence(fetch.offset, fetch.last_epoch)
""",
    replacement="""\
        self.progress.of(fetch.replica).end_offset = fetch.offset
        diverging = core.log.divergence(fetch.offset, fetch.last_epoch)
""",
    scenario="cut-off-leader",
    seed=1,
)

"""A replica counts as having the whole log once its parked fetch is answered (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
                self.respond(core, waiting.request, waiting.fetch)
            else:""",
    replacement="""\
                self.respond(core, waiting.request, waiting.fetch)
                self.progress.of(waiting.fetch.replica).end_offset = core.log.end
            else:""",
    scenario="mixture",
    seed=1,
    nodes=True,
)

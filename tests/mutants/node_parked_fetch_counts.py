"""A parked fetch counts, when it is answered, as having received what it is sent (Q21)."""

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

"""A leader that only seemed dead is never asked again, and no peer is believed about it (Q24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.unattached",
    source="asks_down = core.jitter(jitter_purposes.DOWN_PEER, now, below=DOWN_PEER_ODDS) == 0",
    replacement="asks_down = False",
    scenario="seems-removed",
    seed=104,
)

"""A candidate sends its current epoch as its log's last epoch (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.voter_poll",
    source="            last_epoch=core.log.last_epoch,",
    replacement="            last_epoch=core.election.epoch,",
    scenario="parted-logs",
    seed=2,
)

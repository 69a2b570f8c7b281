"""A fetch of an epoch that the leader lacks is compared with an older one (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if found.epoch == last_epoch and offset <= found.offset:",
    replacement="if offset <= found.offset:",
    scenario="parted-logs",
    seed=2,
)

"""A fetch of an epoch that the leader lacks is compared with an older one (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if common.epoch == last_epoch and offset <= common.offset:",
    replacement="if offset <= common.offset:",
    scenario="parted-logs",
    seed=2,
)

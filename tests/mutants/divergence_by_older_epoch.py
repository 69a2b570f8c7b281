"""The leader checks the fetch offset, but not whether it has the last fetched epoch (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if common.epoch == last_epoch and offset <= common.offset:",
    replacement="if offset <= common.offset:",
    scenario="parted-logs",
    seed=2,
)

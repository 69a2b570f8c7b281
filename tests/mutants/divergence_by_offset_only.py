"""Logs diverge only at an end of one of them (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if common.epoch == last_epoch and offset <= common.offset:",
    replacement="if offset <= self.end:",
    scenario="leader-failure",
    seed=1,
)

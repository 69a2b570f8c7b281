"""Logs diverge only at an end of one of them (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if found.epoch == last_epoch and offset <= found.offset:",
    replacement="if offset <= self.end:",
    scenario="leader-failure",
    seed=1,
)

"""A fetch diverges only beyond the leader's log end, whatever its last fetched epoch is (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if common.epoch == last_epoch and offset <= common.offset:",
    replacement="if offset <= self.end:",
    scenario="leader-failure",
    seed=1,
)

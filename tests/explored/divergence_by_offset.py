"""Breaks Q19: only the offset of a fetch decides whether it diverges."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q19: only the offset of a fetch decides whether it diverges",
    detected_by="what is committed is durable on a majority",
    module="kraftlog.raft.log",
    original="if common.epoch == last_epoch and offset <= common.offset:",
    replacement="if offset <= self.end:",
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)

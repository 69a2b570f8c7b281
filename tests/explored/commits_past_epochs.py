"""Breaks Q21: a leader commits records of past epochs before one of its own."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q21: a leader commits records of past epochs before one of its own",
    detected_by="a leader commits by a record of its own epoch",
    module="kraftlog.raft.roles.leader",
    original="if end <= self.epoch_start or end <= log.high_watermark:",
    replacement="if end <= log.high_watermark:",
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)

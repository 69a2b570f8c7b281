"""Breaks Q12: logs are compared by their ends alone."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q12: logs are compared by their ends alone",
    detected_by="the newest leader has everything that is committed",
    module="kraftlog.raft.log",
    original="return (last_epoch, end_offset) >= (self.last_epoch, self.end)",
    replacement="return end_offset >= self.end",
    bound={"epochs": 3, "records": 0, "crashes": (0, 0, 0)},
)

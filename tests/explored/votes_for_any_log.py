"""Breaks Q12: a vote is granted whatever the candidate's log."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q12: a vote is granted whatever the candidate's log",
    detected_by="the newest leader has everything that is committed",
    module="kraftlog.raft.elections",
    original="if not core.log.is_covered_by(vote.last_epoch, vote.end_offset):",
    replacement="if False:",
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)

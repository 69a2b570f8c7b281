"""Breaks Q18: a fetch of an older epoch is accepted."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q18: a fetch of an older epoch is accepted",
    detected_by="a leader counts only replicas of its epoch",
    module="kraftlog.raft.roles.leader",
    original="        if 0 <= epoch < core.election.epoch:",
    replacement="        if False:",
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)

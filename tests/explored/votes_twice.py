"""Breaks Q2: a node votes twice in one epoch."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q2: a node votes twice in one epoch",
    detected_by="a node votes once in an epoch",
    module="kraftlog.raft.elections",
    original="return core.election.voted in {None, vote.candidate}",
    replacement="return core.election.voted != core.me",
    bound={"epochs": 1, "records": 0},
)

"""Breaks Q3: a vote is sent before it is durable."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q3: a vote is sent before it is durable",
    detected_by="a node votes once in an epoch",
    module="kraftlog.raft.core",
    original="(ElectionDurable(newest),) if self.durable_election_version < newest else ()",
    replacement="()",
    bound={"epochs": 1, "records": 0},
)

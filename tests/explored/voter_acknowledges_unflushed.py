"""Breaks Q6: a voter acknowledges before its log is durable."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q6: a voter acknowledges before its log is durable",
    detected_by="what is committed is durable on a majority",
    module="kraftlog.raft.fetching",
    original="unflushed = core.may_be_counted and log.flushed < log.end",
    replacement="unflushed = False",
    bound={"epochs": 1, "records": 0},
)

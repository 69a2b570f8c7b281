"""Breaks Q21: a leader counts its own log before it is durable."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q21: a leader counts its own log before it is durable",
    detected_by="what is committed is durable on a majority",
    module="kraftlog.raft.roles.leader",
    original="core.me, log.flushed, mark)",
    replacement="core.me, log.end, mark)",
    bound={"epochs": 1, "records": 0},
)

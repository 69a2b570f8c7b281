"""Voters whose record is only in a snapshot are lost with the log prefix (R1, Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="        self.voters.trim(end.offset)",
    replacement="""\
        kept = [entry for entry in self.voters.entries if entry[0] >= end.offset]
        self.voters.entries = tuple(kept)""",
    scenario="mixture",
    seed=1,
)

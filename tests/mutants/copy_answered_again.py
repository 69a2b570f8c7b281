"""A late copy of a fetch takes the place of what was answered after it (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="        if self.channel is None or (asked.channel, asked.number) > newest:",
    replacement="        if newest:",
    scenario="late-copies",
    seed=1,
)

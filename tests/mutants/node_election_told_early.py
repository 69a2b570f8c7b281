"""A node takes its election state for durable before it is written (Q3, Q13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.quorum",
    source="election.store(self._files, self._folder, stored), written)",
    replacement=(
        "election.store(self._files, self._folder, stored), lambda *_: None)\n"
        "        written(None, None, _)"
    ),
    scenario="initial-leader",
    seed=1,
    nodes=True,
)

"""A node reports its election state as durable before it is written (Q3, Q13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.quorum_io",
    source="            lambda now: self._notify(effects.ElectionWritten(effect.version), now),",
    replacement=(
        "            lambda now: None,\n        )\n"
        "        self._notify(effects.ElectionWritten(effect.version), _"
    ),
    scenario="initial-leader",
    seed=1,
    nodes=True,
)

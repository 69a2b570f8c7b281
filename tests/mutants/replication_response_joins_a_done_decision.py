"""A decision without records waits for an earlier one that is committed already (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.controller.active_controller",
    source=(
        "        if proposed is self._last_proposed:\n            self._last_proposed = None\n"
    ),
    replacement=("        if proposed is None:\n            self._last_proposed = None\n"),
    scenario="cluster",
    seed=1,
)

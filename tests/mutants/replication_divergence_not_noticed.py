"""A leader does not compare the last fetched epoch with its log (V6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.handlers.fetch",
    source=(
        "        if part.last_fetched_epoch < 0:\n"
        "            return None\n"
        "        epoch, end = end_of_epoch"
    ),
    replacement=(
        "        if part.last_fetched_epoch < 99999:\n"
        "            return None\n"
        "        epoch, end = end_of_epoch"
    ),
    scenario="cluster",
    seed=10,
)

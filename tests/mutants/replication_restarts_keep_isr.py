"""A broker that registers again stays in its ISRs (V5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source=(
        "        elif state.elr_enabled:\n"
        "            records += unclean_shutdown(state, broker_id)\n"
        "        else:\n"
        "            records += broker_goes(state, broker_id)\n"
    ),
    replacement="",
    scenario="cluster",
    seed=5,
)

"""A broker that registers again after an unclean stop stays in its ISRs (V5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source=(
        "        elif state.elr_enabled:\n"
        "            records += remove_from_isrs_and_elrs("
        "state, broker_id, lost_directory=lost_directory)\n"
        "        else:\n"
        "            records += remove_from_isrs(state, broker_id, lost_directory=lost_directory)\n"
    ),
    replacement="",
    scenario="cluster",
    seed=5,
)

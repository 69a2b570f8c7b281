"""A broker that stopped uncleanly stays in every ISR and ELR (KIP-966)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.elections",
    source=("    keys = {**index.in_isr.get(broker_id, {}), **index.in_elr.get(broker_id, {})}\n"),
    replacement=("    keys: Keys = {}\n"),
    scenario="cluster",
    seed=5,
)

"""A heartbeat of an earlier process of a broker counts for the present one (V5, V23)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source="if broker is None or broker.epoch != request.broker_epoch:",
    replacement="if broker is None:",
    scenario="cluster",
    seed=1,
    faults="late-requests,shutdown",
)

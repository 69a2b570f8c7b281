"""The controller unfences a broker that has not replayed its registration (V5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.brokers",
    source="        if stays_fenced or not caught_up:\n",
    replacement="        if stays_fenced:\n",
    scenario="cluster",
    seed=34,
    faults="late-requests,kill,pause",
)

"""A refused connection counts as evidence against a broker that has not responded on it (V2, V23).

It was a connection to an earlier process of the broker.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.controller.broker_probes",
    source="            if not was_answered:\n                return\n",
    replacement="",
    scenario="cluster",
    seed=7,
    faults="power",
)

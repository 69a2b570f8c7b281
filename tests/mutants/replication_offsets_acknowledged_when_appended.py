"""A coordinator acknowledges offset commits before the in-sync replicas have them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.coordinators.group_coordinators",
    source=(
        "        write = CoordinatorWrite(base, done)\n        self._wait_for(partition, write)\n"
    ),
    replacement="        CoordinatorWrite(base, done).respond(None)\n",
    scenario="cluster",
    seed=16,
)

"""Evidence that a process of a broker has ended counts for the process that followed (V2, V23).

Only a controller that has learned from a snapshot that a broker has registered again still has
such evidence when it becomes active: one that replays the registration forgets it.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.failure_evidence",
    source="if broker is None or broker.epoch != epoch or not broker.active or session is None:",
    replacement="if broker is None or not broker.active or session is None:",
    scenario="cluster",
    seed=500,
    faults="controller-race",
    keep=(1,),
)

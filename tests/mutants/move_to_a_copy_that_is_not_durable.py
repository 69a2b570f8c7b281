"""A log that moves is deleted before its copy is durable (V22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_moves",
    source="            job.run(self._files)\n            if job.error is None and is_mirrored:\n",
    replacement="            if job.error is None and is_mirrored:\n",
    scenario="cluster",
    seed=15,
    faults="power-after-move",
)

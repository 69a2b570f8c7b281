"""A fetcher without work is always due."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.fetcher",
    source="        if self._due_ms and self._has_request:",
    replacement="        if self.in_flight is None and self._due_ms:",
    scenario="cluster",
    seed=7,
)

"""A node reports its log as flushed without a sync (Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.flushes",
    source="        self._io_thread.submit(run, ended)",
    replacement="        self._io_thread.submit(lambda: None, ended)",
    scenario="initial-leader",
    seed=1,
    nodes=True,
)

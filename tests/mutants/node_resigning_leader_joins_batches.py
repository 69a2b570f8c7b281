"""A leader that resigns in the step in which it commits replays its own batches as one (R5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.commit_applier",
    source="max_pieces = 1 if self.machine_leads else len(tail)",
    replacement='max_pieces = 1 if core.role.name == "leader" else len(tail)',
    test="tests/node/quorum/test_driver.py::"
    "test_r5_a_leader_that_resigns_as_it_commits_replays_batch_by_batch",
)

"""A leader keeps a follower's position when the follower fetches from a lower offset."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.followers",
    source="self.broker_epoch, self.end, self.start = broker_epoch, end, start",
    replacement="self.broker_epoch, self.end, self.start = broker_epoch, max(self.end, end), start",
    scenario="cluster",
    seed=137,
    test="tests/replication/test_progress.py::test_v7_a_followers_end_may_fall",
)

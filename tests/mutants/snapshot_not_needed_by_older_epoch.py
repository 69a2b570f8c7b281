"""A fetch whose last epoch is older than the snapshot's gets no snapshot (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.snapshots",
    source="""\
        or fetch.last_epoch < snapshot.epoch
""",
    replacement="""\
        or fetch.last_epoch < 0
""",
    test="tests/raft/test_snapshots.py::test_q38_a_log_of_an_older_epoch_than_the_snapshot_gets_it",
)

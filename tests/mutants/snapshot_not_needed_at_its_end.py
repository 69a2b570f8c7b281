"""A fetch at the snapshot's end offset, but with another last epoch, gets no snapshot (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.snapshots",
    source="""\
        or (fetch.offset == snapshot.offset and fetch.last_epoch != snapshot.epoch)
""",
    replacement="""\
        or False
""",
    test="tests/raft/test_snapshots.py::test_q38_a_diverging_log_of_the_snapshots_length_gets_it",
)

"""The records of a snapshot do not count as committed (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="""\
        self.high_watermark = max(self.high_watermark, end.offset)
""",
    replacement="",
    scenario="snapshot-install",
    seed=1,
)

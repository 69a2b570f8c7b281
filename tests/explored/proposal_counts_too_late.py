"""Breaks V7: a proposed ISR counts only once it is committed."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V7: a proposed ISR counts only once it is committed",
    detected_by="the leader counts the ISR",
    module="kraftlog.replication.partition",
    original="""\
        if self.proposed is None:
            return self.isr
""",
    replacement="""\
        if True:
            return self.isr
""",
    explores=REPLICATION,
    bound={"fencings": 1, "unfencings": 1},
)

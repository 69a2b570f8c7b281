"""Breaks V5 (KAFKA-14616): a starting broker opens logs before it has replayed its registration."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V5: a starting broker touches logs while it replays old metadata",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.replication.replica_manager",
    original="""\
        self.is_registered = False
""",
    replacement="""\
        self.is_registered = True
""",
    explores=REPLICATION,
    bound={"replicas": (0, 1), "fencings": 1, "crashes": 1, "deletions": 1},
)

"""Breaks V10: removing a replica does not bump the leader epoch."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V10: removing a replica does not bump the leader epoch",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.controller.partition_change",
    original="""\
            self.leader = before.leader
""",
    replacement="""\
            pass
""",
    explores=REPLICATION,
    bound={"replicas": (0, 1), "targets": ((0, 2), (0, 1)), "fencings": 0, "reassignments": 2},
)

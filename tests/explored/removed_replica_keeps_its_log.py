"""Breaks V4, V10: the log of a removed replica is not deleted."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V4, V10: a removed replica keeps its log",
    detected_by="a replica that is not assigned is deleted",
    module="kraftlog.replication.replica_manager",
    original="""\
        self._emit(DeleteLog(partition.log, partition.topic_id))""",
    replacement="""\
        pass""",
    explores=REPLICATION,
    bound={"replicas": (0, 1), "targets": ((2, 1),), "fencings": 0, "reassignments": 1},
)

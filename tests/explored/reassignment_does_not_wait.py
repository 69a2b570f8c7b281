"""Breaks V10: a reassignment is complete before its new replicas have caught up."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V10: a reassignment does not wait for its new replicas",
    detected_by="a reassignment waits for its replicas",
    module="kraftlog.controller.partition_change",
    original="""\
        if isr and replicas and set(needed) <= set(isr):""",
    replacement="""\
        if isr and replicas and needed:""",
    explores=REPLICATION,
    bound={"replicas": (0, 1), "targets": ((2, 1),), "fencings": 0, "reassignments": 1},
)

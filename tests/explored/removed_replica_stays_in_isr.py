"""Breaks V10: a replica that a reassignment removes stays in the ISR."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V10: a removed replica stays in the ISR",
    detected_by="the ISR is sound",
    module="kraftlog.controller.partition_change",
    original="""\
            self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()""",
    replacement="""\
            self.replicas, self.adding, self.removing = replicas, (), ()""",
    explores=REPLICATION,
    bound={"replicas": (0, 1), "targets": ((2, 1),), "fencings": 0, "reassignments": 1},
)

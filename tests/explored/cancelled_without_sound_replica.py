"""Breaks V10 (KAFKA-14808): a reassignment is cancelled although only new replicas are in sync."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V10 (KAFKA-14808): cancelled although only new replicas are in sync",
    detected_by="the ISR is sound",
    module="kraftlog.controller.reassignment",
    original="""\
    if not isr and not may_lose:""",
    replacement="""\
    if False:""",
    explores=REPLICATION,
    bound={"replicas": (0,), "targets": ((1, 2),), "reassignments": 1, "cancellations": 1},
)

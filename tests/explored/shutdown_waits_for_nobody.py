"""Breaks V3: a broker in controlled shutdown stops before the others know the new leaders."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V3: a broker stops before the others know the new leaders",
    detected_by="a broker stops when all others know the new leader",
    module="kraftlog.controller.brokers",
    original="""\
    if state.index.leads(broker.id) or waits:""",
    replacement="""\
    if state.index.leads(broker.id):""",
    explores=REPLICATION,
    bound={"fencings": 0, "shutdowns": 1},
)

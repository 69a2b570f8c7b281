"""Breaks V2: a broker whose session has ended is fenced, and goes on leading."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V2: a broker without a session stays leader and in the ISR",
    detected_by="the ISR is sound",
    module="kraftlog.controller.brokers",
    original="""\
    return [*remove_from_isrs(state, broker.id), record]""",
    replacement="""\
    return [record]""",
    explores=REPLICATION,
    bound={"fencings": 1},
)

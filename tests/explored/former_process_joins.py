"""Breaks V8 (KAFKA-14139): a broker joins the ISR by what its former process had fetched."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V8 (KAFKA-14139): the controller ignores the broker epochs of a new ISR",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.controller.isr",
    original=" and epoch in (ANY_EPOCH, broker.epoch)",
    replacement="",
    explores=REPLICATION,
    bound={
        "fencings": 0,
        "unfencings": 2,
        "power_losses": 2,
        "has_elr": True,
        "min_isr": 2,
    },
)

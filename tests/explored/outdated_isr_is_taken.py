"""Breaks V1: the controller accepts an ISR proposed before the partition last changed."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V1: the controller accepts an ISR proposed before the partition last changed",
    detected_by="the leader counts the ISR",
    module="kraftlog.controller.isr",
    original="    if epochs[1] < known[1]:",
    replacement="    if False:",
    explores=REPLICATION,
    bound={"fencings": 1, "unfencings": 1, "lags": 1},
)

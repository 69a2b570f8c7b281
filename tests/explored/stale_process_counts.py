"""Breaks V8 (KAFKA-14139): the late fetch of a former process counts."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V8 (KAFKA-14139): the late fetch of a former process counts",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.replication.in_sync_replicas",
    original="        if self._is_stale(follower, broker_epoch):",
    replacement="        if False:",
    explores=REPLICATION,
    bound={
        "fencings": 0,
        "unfencings": 1,
        "power_losses": 1,
        "losses": 1,
        "has_elr": True,
        "min_isr": 2,
    },
    is_slow=True,
)

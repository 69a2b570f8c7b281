"""Breaks V8 (KAFKA-14139): a proposal that is sent again names the newest process of a broker."""

from __future__ import annotations

from tests.explored import REPLICATION, Mutant

MUTANT = Mutant(
    breaks="V8 (KAFKA-14139): a proposal names the process of the newest fetch when it is sent",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.replication.isr",
    original="BrokerState(broker_id=broker, broker_epoch=epoch)",
    replacement="BrokerState(broker_id=broker, broker_epoch=self._epoch_of(_, broker))",
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

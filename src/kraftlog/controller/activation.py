"""What a new active controller writes first."""

from __future__ import annotations

from kraftlog.controller.state import ALL_BROKERS, ELR_FEATURE, MIN_ISR
from kraftlog.metadata.replay import BROKER
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.metadata.versions import METADATA_LEVEL
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.controller.state import State
    from kraftlog.wire.schema import Message

#: As `kafka-storage format` of 4.3 chooses them, as far as they are kept to here.
DEFAULT_FEATURES = {
    METADATA_VERSION: METADATA_LEVEL,
    ELR_FEATURE: 1,
    "group.version": 1,
    "transaction.version": 2,
}


def bootstrap_records(features: Mapping[str, int] = DEFAULT_FEATURES) -> list[Message]:
    """What `format` leaves for the first controller of a cluster: the version of records first."""
    names = sorted(features, key=lambda name: (name != METADATA_VERSION, name))
    return [FeatureLevelRecord(name=name, feature_level=features[name]) for name in names]


def activation_records(
    state: State, bootstrap: Sequence[Message], static: Mapping[str, str]
) -> list[Message]:
    """A transaction that a predecessor left open is void; an empty log is begun."""
    records: list[Message] = []
    if state.transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if state.features:
        return records
    records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += bootstrap
    levels = {r.name: r.feature_level for r in bootstrap if isinstance(r, FeatureLevelRecord)}
    if levels.get(ELR_FEATURE):
        # With eligible replicas the cluster has one minimum, and all have to know it.
        records.append(
            ConfigRecord(
                resource_type=BROKER,
                resource_name=ALL_BROKERS,
                name=MIN_ISR,
                value=static.get(MIN_ISR, "1"),
            )
        )
    records.append(EndTransactionRecord())
    return records

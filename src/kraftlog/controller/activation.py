"""The first records of a new active controller."""

from __future__ import annotations

from kraftlog.controller.features import cluster_min_isr
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.controller.state import ControllerState
    from kraftlog.wire.schema import Message


def bootstrap_records(features: Mapping[str, int]) -> list[Message]:
    """The bootstrap records of a new cluster, metadata.version first.

    `metadata.releases.chosen_levels` chooses the levels.
    """
    names = sorted(
        filter(features.get, features), key=lambda name: (name != METADATA_VERSION, name)
    )
    return [FeatureLevelRecord(name=name, feature_level=features[name]) for name in names]


def activation_records(
    state: ControllerState, bootstrap: Sequence[Message], static_config: Mapping[str, str]
) -> list[Message]:
    """The records that abort a former controller's open transaction, and bootstrap an empty log."""
    records: list[Message] = []
    if state.transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if state.features:
        return records
    records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += bootstrap
    levels = {
        record.name: record.feature_level
        for record in bootstrap
        if isinstance(record, FeatureLevelRecord)
    }
    if levels.get(ELR_FEATURE):
        records += cluster_min_isr(state, static_config)
    records.append(EndTransactionRecord())
    return records

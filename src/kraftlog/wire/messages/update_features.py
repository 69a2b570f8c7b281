"""UpdateFeatures: raise or lower finalized feature levels."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class FeatureUpdateKey(Message):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0, default=False)
    upgrade_type: int = int8(since=1, default=1)


class UpdateFeaturesRequest(Message, versions=(0, 2), flexible=0):
    timeout_ms: int = int32(default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1, default=False)


class UpdatableFeatureResult(Message):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class UpdateFeaturesResponse(Message, versions=(0, 2), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    results: Sequence[UpdatableFeatureResult] = array(
        UpdatableFeatureResult, until=1, default=(), ignorable=True
    )

"""AlterClientQuotas: set and remove quotas."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, float64, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class EntityData(Message):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class OpData(Message):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryData(Message):
    entity: Sequence[EntityData] = array(EntityData)
    ops: Sequence[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, versions=(0, 1), flexible=1):
    entries: Sequence[EntryData] = array(EntryData)
    validate_only: bool = boolean()


class EntryResult(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    entity: Sequence[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, versions=(0, 1), flexible=1):
    throttle_time_ms: int = int32(default=0)
    entries: Sequence[EntryResult] = array(EntryResult)

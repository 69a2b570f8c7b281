"""DescribeClientQuotas: the quotas that match a filter."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, float64, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ComponentData(Message):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=True)


class DescribeClientQuotasRequest(Message, versions=(0, 1), flexible=1):
    components: Sequence[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Message):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ValueData(Message):
    key: str = string()
    value: float = float64()


class EntryData(Message):
    entity: Sequence[EntityData] = array(EntityData)
    values: Sequence[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Message, versions=(0, 1), flexible=1):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    entries: Sequence[EntryData] | None = array(EntryData, nullable=True)

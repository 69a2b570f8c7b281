"""AlterConfigs: replace all configs of a resource."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class AlterableConfig(Message):
    name: str = string()
    value: str | None = string(nullable=True)


class AlterConfigsResource(Message):
    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Message, versions=(0, 2), flexible=2):
    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32(default=0)
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)

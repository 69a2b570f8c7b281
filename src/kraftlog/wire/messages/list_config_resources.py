"""ListConfigResources: the resources with configs of their own."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListConfigResourcesRequest(Message, versions=(0, 1), flexible=0):
    resource_types: Sequence[int] = array("int8", since=1, default=())
    # Our own: requests a linearizable read.
    linearizable: bool = boolean(tag=10000, default=False)


class ConfigResource(Message):
    resource_name: str = string()
    resource_type: int = int8(since=1, default=16, ignorable=True)


class ListConfigResourcesResponse(Message, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    config_resources: Sequence[ConfigResource] = array(ConfigResource)

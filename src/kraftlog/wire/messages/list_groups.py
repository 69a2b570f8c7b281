"""ListGroups: the groups of a coordinator."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListGroupsRequest(Message, versions=(0, 5), flexible=3):
    states_filter: Sequence[str] = array("string", since=4, default=())
    types_filter: Sequence[str] = array("string", since=5, default=())


class ListedGroup(Message):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4, default="", ignorable=True)
    group_type: str = string(since=5, default="", ignorable=True)


class ListGroupsResponse(Message, versions=(0, 5), flexible=3):
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
    groups: Sequence[ListedGroup] = array(ListedGroup)

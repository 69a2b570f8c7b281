"""DeleteGroups: delete empty groups."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeleteGroupsRequest(Message, versions=(0, 3), flexible=2):
    groups_names: Sequence[str] = array("string")


class DeletableGroupResult(Message):
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable=True, default=None, ignorable=True)


class DeleteGroupsResponse(Message, versions=(0, 3), flexible=2):
    throttle_time_ms: int = int32(default=0)
    results: Sequence[DeletableGroupResult] = array(DeletableGroupResult)

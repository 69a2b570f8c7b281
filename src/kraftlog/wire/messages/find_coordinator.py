"""FindCoordinator: the coordinator of a group or a transactional id."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class FindCoordinatorRequest(Message, versions=(0, 6), flexible=3):
    key: str = string(until=3, default="")
    key_type: int = int8(since=1, default=0)
    coordinator_keys: Sequence[str] = array("string", since=4, default=())


class Coordinator(Message):
    key: str = string(since=4, default="")
    node_id: int = int32(since=4, default=0)
    host: str = string(since=4, default="")
    port: int = int32(since=4, default=0)
    error_code: int = int16(since=4, default=0)
    error_message: str | None = string(since=4, nullable=True, default=None, ignorable=True)


class FindCoordinatorResponse(Message, versions=(0, 6), flexible=3):
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16(until=3, default=0)
    error_message: str | None = string(
        since=1, until=3, nullable=True, default=None, ignorable=True
    )
    node_id: int = int32(until=3, default=0)
    host: str = string(until=3, default="")
    port: int = int32(until=3, default=0)
    coordinators: Sequence[Coordinator] = array(Coordinator, since=4, default=())

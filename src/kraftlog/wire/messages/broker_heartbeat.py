"""BrokerHeartbeat: keeps a broker's registration alive, and asks to unfence or shut down."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class BrokerHeartbeatRequest(Message, versions=(0, 2), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: Sequence[Uuid] = array("uuid", since=1, tag=0, default=())
    cordoned_log_dirs: Sequence[Uuid] | None = array(
        "uuid", since=2, nullable=True, tag=1, default=None
    )
    # Our own: online directories that cannot be written at present; null: no change.
    unwritable_log_dirs: Sequence[Uuid] | None = array(
        "uuid", nullable=True, tag=10000, default=None
    )


class BrokerHeartbeatResponse(Message, versions=(0, 2), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()

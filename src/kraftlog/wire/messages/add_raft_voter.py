"""AddRaftVoter: add a voter to the metadata quorum."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, string, uint16, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class Listener(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Message, versions=(0, 1), flexible=0):
    cluster_id: str | None = string(nullable=True)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: Sequence[Listener] = array(Listener)
    ack_when_committed: bool = boolean(since=1, default=True)
    # Our own: the node asks by itself (controller.quorum.auto.join.enable), not an operator.
    is_auto_join: bool = boolean(tag=10000, default=False)


class AddRaftVoterResponse(Message, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)

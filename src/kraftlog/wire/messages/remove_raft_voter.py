"""RemoveRaftVoter: remove a voter from the metadata quorum."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, int16, int32, string, uuid

if TYPE_CHECKING:
    from kraftlog.types import Uuid


class RemoveRaftVoterRequest(Message, versions=(0, 0), flexible=0):
    cluster_id: str | None = string(nullable=True)
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()


class RemoveRaftVoterResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)

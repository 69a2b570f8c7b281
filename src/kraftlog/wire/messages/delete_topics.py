"""DeleteTopics: delete topics by name or, from version 6, by id."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class DeleteTopicState(Message):
    name: str | None = string(since=6, nullable=True, default=None)
    topic_id: Uuid = uuid(since=6, default=NULL_UUID)


class DeleteTopicsRequest(Message, versions=(1, 6), flexible=4):
    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, since=6, default=())
    topic_names: Sequence[str] = array("string", until=5, default=(), ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Message):
    name: str | None = string(nullable=6)
    topic_id: Uuid = uuid(since=6, default=NULL_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=True, default=None, ignorable=True)


class DeleteTopicsResponse(Message, versions=(1, 6), flexible=4):
    throttle_time_ms: int = int32(default=0)
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult)

"""Error responses to quorum requests for another partition than the metadata partition."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.requests import only_partition
from kraftlog.node.quorum.responses import NONE, response_to_wire
from kraftlog.raft import messages as raft
from kraftlog.types import METADATA_TOPIC, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from typing import Any

_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_REFUSALS: dict[int, Any] = {
    ApiKey.VOTE: raft.VoteResult(_UNKNOWN_PARTITION, NONE, NONE, granted=False),
    ApiKey.BEGIN_QUORUM_EPOCH: raft.BeginEpochResult(_UNKNOWN_PARTITION, NONE, NONE),
    ApiKey.END_QUORUM_EPOCH: raft.EndEpochResult(_UNKNOWN_PARTITION, NONE, NONE),
    ApiKey.FETCH_SNAPSHOT: raft.SnapshotChunk(
        _UNKNOWN_PARTITION, NONE, NONE, OffsetAndEpoch(0, 0), 0
    ),
    ApiKey.READ_OFFSET: raft.ReadOffsetResult(_UNKNOWN_PARTITION, NONE, NONE, NONE),
}

_USUAL_NAMES = "topic_name", "partition_index", "partition_index"
#: By API: the fields for the topic, the partition in requests and the partition in responses.
_FIELD_NAMES = {
    ApiKey.VOTE: _USUAL_NAMES,
    ApiKey.BEGIN_QUORUM_EPOCH: _USUAL_NAMES,
    ApiKey.END_QUORUM_EPOCH: _USUAL_NAMES,
    ApiKey.FETCH_SNAPSHOT: ("name", "partition", "index"),
    ApiKey.READ_OFFSET: _USUAL_NAMES,
}


def refusal_of_other_partition(api_key: int, request: Any) -> Any:
    """The error response, or None if the request is for the metadata partition."""
    topic_name, request_field, response_field = _FIELD_NAMES[api_key]
    requested_partition = only_partition(request.topics)
    topic, partition = (
        getattr(request.topics[0], topic_name),
        getattr(requested_partition, request_field),
    )
    if (topic, partition) == (METADATA_TOPIC, 0):
        return None
    response: Any = response_to_wire(_REFUSALS[api_key])
    [result] = response.topics
    setattr(result, topic_name, topic)
    setattr(result.partitions[0], response_field, partition)
    return response

"""Requests of the quorum about a partition that is none of it: refused by the name they gave."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.requests import the_partition
from kraftlog.node.quorum.responses import NONE, response_to_wire
from kraftlog.raft import messages as raft
from kraftlog.types import METADATA_TOPIC, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from typing import Any

_NOT_OURS = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_REFUSALS: dict[int, Any] = {
    ApiKey.VOTE: raft.VoteResult(_NOT_OURS, NONE, NONE, granted=False),
    ApiKey.BEGIN_QUORUM_EPOCH: raft.BeginResult(_NOT_OURS, NONE, NONE),
    ApiKey.END_QUORUM_EPOCH: raft.EndResult(_NOT_OURS, NONE, NONE),
    ApiKey.FETCH_SNAPSHOT: raft.SnapshotChunk(_NOT_OURS, NONE, NONE, OffsetAndEpoch(0, 0), 0),
    ApiKey.READ_OFFSET: raft.ReadOffsetResult(_NOT_OURS, NONE, NONE, NONE),
}

_USUALLY = "topic_name", "partition_index", "partition_index"
#: What each API calls the topic, the partition where it asks, and the partition where it answers.
_NAMES = {
    ApiKey.VOTE: _USUALLY,
    ApiKey.BEGIN_QUORUM_EPOCH: _USUALLY,
    ApiKey.END_QUORUM_EPOCH: _USUALLY,
    ApiKey.FETCH_SNAPSHOT: ("name", "partition", "index"),
    ApiKey.READ_OFFSET: _USUALLY,
}


def refusal_of_other_partition(api_key: int, request: Any) -> Any:
    """The answer to who asks about another partition than that of the metadata; else None."""
    topic_name, asked_name, told_name = _NAMES[api_key]
    asked_partition = the_partition(request.topics)
    topic, partition = getattr(request.topics[0], topic_name), getattr(asked_partition, asked_name)
    if (topic, partition) == (METADATA_TOPIC, 0):
        return None
    response: Any = response_to_wire(_REFUSALS[api_key])
    [result] = response.topics
    setattr(result, topic_name, topic)
    setattr(result.partitions[0], told_name, partition)
    return response

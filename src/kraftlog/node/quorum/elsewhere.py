"""Requests of the quorum about a partition that is none of it: refused by the name they gave."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.answers import NONE, answer_to_wire
from kraftlog.node.quorum.requests import the_partition
from kraftlog.raft import messages as raft
from kraftlog.types import METADATA_TOPIC, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from typing import Any

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_REFUSALS: dict[int, Any] = {
    ApiKey.VOTE: raft.VoteAnswer(UNKNOWN, NONE, NONE, granted=False),
    ApiKey.BEGIN_QUORUM_EPOCH: raft.BeginAnswer(UNKNOWN, NONE, NONE),
    ApiKey.END_QUORUM_EPOCH: raft.EndAnswer(UNKNOWN, NONE, NONE),
    ApiKey.FETCH_SNAPSHOT: raft.SnapshotChunk(UNKNOWN, NONE, NONE, OffsetAndEpoch(0, 0), 0),
    ApiKey.READ_OFFSET: raft.ReadOffsetAnswer(UNKNOWN, NONE, NONE, NONE),
}


def refusal_elsewhere(api_key: int, request: Any) -> Any:
    """The answer to who asks about another partition than that of the metadata; else None."""
    partition = the_partition(request.topics)
    # FetchSnapshot has names of its own for what it names.
    is_snapshot = api_key == ApiKey.FETCH_SNAPSHOT
    name = "name" if is_snapshot else "topic_name"
    asked_topic = getattr(request.topics[0], name)
    asked_index = partition.partition if is_snapshot else partition.partition_index
    if (asked_topic, asked_index) == (METADATA_TOPIC, 0):
        return None
    response: Any = answer_to_wire(_REFUSALS[api_key])
    [topic] = response.topics
    setattr(topic, name, asked_topic)
    setattr(topic.partitions[0], "index" if is_snapshot else "partition_index", asked_index)
    return response

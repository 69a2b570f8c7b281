"""Writes of a coordinator that time out before they are committed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.shard import partition_of
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.node.frame_client import FrameClient
from tests.node.fuzzed_node import GROUPS, TOPICS
from tests.node.replicating_nodes import ReplicatingNodes

#: Longer than `offsets.commit.timeout.ms`.
COMMIT_TIMED_OUT_MS = 6000
OFFSET = 3


def commit() -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=OFFSET, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="demo", partitions=[part])
    return OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )


@pytest.mark.parametrize("one_returns_first", [False, True], ids=["both at once", "one first"])
def test_v7_a_commit_that_fails_counts_once_its_record_is_committed(
    one_returns_first: bool,
) -> None:
    """V7: a next coordinator would replay the record, so this one must count it, too."""
    cluster = ReplicatingNodes(Random(0))
    cluster.loss = 0.0
    image = cluster.host.node.image
    key = image.topic_ids[GROUPS], partition_of("g", TOPICS[GROUPS])
    coordinator = image.partitions[key].leader
    host = cluster.hosts[coordinator]
    others = [node for node in cluster.hosts if node != coordinator]
    client = FrameClient(host)

    def ask(api_key: int, version: int, request: Any, ms: int = 1000) -> Any:
        client.send(api_key, version, request)
        cluster.settle(ms)
        [(_, answer)] = client.take()
        return answer

    for node in others:
        cluster._stop(node, power=False)
    answer = ask(ApiKey.OFFSET_COMMIT, 8, commit(), COMMIT_TIMED_OUT_MS)
    code = answer.topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    if one_returns_first:
        cluster._start(others[0])
        cluster.settle(30_000)  # meanwhile the other broker is fenced
    cluster.restart_missing()
    cluster.settle(30_000)
    assert host.node.replica_manager.partitions[key].online
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="demo", partition_indexes=(0,))]
    )
    answer = ask(ApiKey.OFFSET_FETCH, 5, request)
    assert answer.topics[0].partitions[0].committed_offset == OFFSET
    cluster.check()

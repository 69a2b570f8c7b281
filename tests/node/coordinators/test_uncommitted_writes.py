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
from tests.node.lives import GROUPS, TOPICS
from tests.node.replicated_lives import ReplicatedLife

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


@pytest.mark.parametrize("are_fenced", [False, True], ids=["times out", "lacks replicas"])
def test_v7_a_commit_that_fails_counts_once_its_record_is_committed(are_fenced: bool) -> None:
    """V7: it stays in the log, so it is read by the next coordinator, and by this one, too."""
    life = ReplicatedLife(Random(0))
    life.loss = 0.0
    partition = life.host.node.image.topics[life.host.node.image.topic_ids[GROUPS]]
    key = partition.id, partition_of("g", TOPICS[GROUPS])
    coordinator = life.host.node.image.partitions[key].leader
    host = life.hosts[coordinator]
    others = [node for node in life.hosts if node != coordinator]
    client = FrameClient(host)

    def asked(api_key: int, version: int, request: Any, ms: int = 1000) -> Any:
        client.send(api_key, version, request)
        life.settle(ms)
        [(_, answer)] = client.take()
        return answer

    for node in others:
        life._stop(node, power=False)
    answer = asked(ApiKey.OFFSET_COMMIT, 8, commit(), COMMIT_TIMED_OUT_MS)
    code = answer.topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    if are_fenced:
        life._start(others[0])
        life.settle(30_000)
    life.restart_missing()
    life.settle(30_000)
    assert host.node.replica_manager.partitions[key].online
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="demo", partition_indexes=(0,))]
    )
    answer = asked(ApiKey.OFFSET_FETCH, 5, request)
    assert answer.topics[0].partitions[0].committed_offset == OFFSET
    life.check()

"""Q2: what an operator sees of requests that name epochs which no election explains."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.driver import LOG_REFUSED_EVERY_MS
from kraftlog.raft.messages import MAX_EPOCH
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    PartitionData,
    TopicData,
)
from tests.node.frame_client import FrameClient, create_topics, make_host
from tests.node.metrics.test_metrics import quorum_metric
from tests.virtual_host import VirtualHost

STRANGER = 7


def announce_leader(host: VirtualHost, epoch: int) -> int:
    """Announce node 7 as the leader of an epoch; return the error code."""
    partition = PartitionData(partition_index=0, leader_id=STRANGER, leader_epoch=epoch)
    topic = TopicData(topic_name="__cluster_metadata", partitions=[partition])
    request = BeginQuorumEpochRequest(cluster_id=None, topics=[topic])
    answer = FrameClient(host, CONTROLLER).ask(ApiKey.BEGIN_QUORUM_EPOCH, 0, request)
    return int(answer.topics[0].partitions[0].error_code)


def test_q2_a_stranger_does_not_end_the_quorum() -> None:
    host = make_host()
    epoch = host.node.quorum.core.election.epoch
    for _ in range(3):
        assert announce_leader(host, MAX_EPOCH) == ErrorCode.INVALID_REQUEST
    [line] = host.log_lines
    assert line.startswith(
        f"a request in the name of node {STRANGER} wanted to raise the epoch of the quorum from "
        f"{epoch} to {MAX_EPOCH}, which no election explains: refused"
    )
    assert quorum_metric(host, "kraftlog_quorum_refused_epochs_total") == {"": 3}
    create_topics(host, {"still-led": 1})
    host.pass_time(LOG_REFUSED_EVERY_MS)
    announce_leader(host, MAX_EPOCH)
    assert len(host.log_lines) == 2

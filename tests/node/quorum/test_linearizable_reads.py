"""P5-P7: any node serves linearizable reads of metadata; a read that it cannot serve fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import RequestFailed, ResponseReceived, SendRequest, VersionUnsupported
from kraftlog.errors import ErrorCode
from kraftlog.node.channels import READ_CHANNEL
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages import begin_quorum_epoch as begins
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from kraftlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kraftlog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraftlog.wire.messages.list_config_resources import ListConfigResourcesRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.read_offset import (
    ReadOffsetPartition,
    ReadOffsetPartitionResult,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReadOffsetTopic,
    ReadOffsetTopicResult,
)
from tests.node.frame_client import FrameClient, make_host
from tests.node.three_nodes import NODES, settings_of
from tests.virtual_host import VirtualHost, voters_named

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

READ_TIMEOUT_MS = 5000
#: The resource type of topics.
TOPIC = 2


def read_requests(*, linearizable: bool = True) -> list[tuple[int, Message]]:
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="demo", configuration_keys=None
    )
    return [
        (ApiKey.METADATA, MetadataRequest(topics=None, linearizable=linearizable)),
        (
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            DescribeTopicPartitionsRequest(topics=(), linearizable=linearizable),
        ),
        (
            ApiKey.DESCRIBE_CONFIGS,
            DescribeConfigsRequest(resources=[resource], linearizable=linearizable),
        ),
        (
            ApiKey.DESCRIBE_CLUSTER,
            DescribeClusterRequest(
                include_cluster_authorized_operations=False, linearizable=linearizable
            ),
        ),
        (
            ApiKey.LIST_CONFIG_RESOURCES,
            ListConfigResourcesRequest(resource_types=[TOPIC], linearizable=linearizable),
        ),
    ]


READS = [pytest.param(*read, id=APIS[read[0]].name) for read in read_requests()]


class RecordedPeers:
    """Keeps the node's ReadOffset requests; its other requests get no response."""

    def __init__(self) -> None:
        self.requests: list[SendRequest] = []

    def send(self, effect: SendRequest) -> None:
        if effect.channel == READ_CHANNEL:
            self.requests.append(effect)


class Follower:
    """Node 1 of three; the test responds as its leader, node 2."""

    def __init__(self) -> None:
        self.peers = RecordedPeers()
        self.host = VirtualHost(
            None,
            settings_of(1, 1 << 20),
            settled=False,
            peers=self.peers,
            voters=voters_named(*NODES),
        )
        self.client = FrameClient(self.host)

    def follow(self, leader: int, epoch: int) -> None:
        """Receive the BeginQuorumEpoch request of a leader."""
        partition = begins.PartitionData(
            partition_index=0,
            voter_directory_id=bytes(16),
            leader_id=leader,
            leader_epoch=epoch,
        )
        topic = begins.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        request = begins.BeginQuorumEpochRequest(
            cluster_id=None, voter_id=1, topics=[topic], leader_endpoints=()
        )
        FrameClient(self.host, CONTROLLER, "CONTROLLER").ask(ApiKey.BEGIN_QUORUM_EPOCH, 1, request)
        self.host.settle()
        assert self.host.node.quorum.leader_id == leader

    def read(self) -> None:
        """Send a linearizable read of a client."""
        request = ListConfigResourcesRequest(resource_types=[TOPIC], linearizable=True)
        self.client.send(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
        self.host.settle()

    def report(self, report: Any) -> None:
        self.host.node.handle(report, self.host.now)
        self.host.settle()

    def respond(self, request: SendRequest, offset: int, code: int = 0) -> None:
        """Respond to a ReadOffset request as the leader."""
        partition = ReadOffsetPartitionResult(
            partition_index=0, error_code=code, leader_id=2, leader_epoch=1, offset=offset
        )
        topic = ReadOffsetTopicResult(topic_name=METADATA_TOPIC, partitions=[partition])
        response = ReadOffsetResponse(cluster_id=None, topics=[topic])
        self.report(ResponseReceived(READ_CHANNEL, request.peer, request.number, response))

    def codes(self) -> list[int]:
        """The error codes of the client's responses since the last call."""
        return [response.error_code for _, response in self.client.take()]


@pytest.fixture
def follower() -> Follower:
    node = Follower()
    node.follow(2, 1)
    return node


def error_of(response: Any) -> int:
    for name in ("topics", "results"):
        parts = getattr(response, name, None)
        if parts:
            return int(parts[0].error_code)
    return int(getattr(response, "error_code", 0))


@pytest.mark.parametrize(("key", "request_"), READS)
def test_p7_a_sole_voter_serves_linearizable_reads(key: int, request_: Message) -> None:
    host = make_host()
    client = FrameClient(host)
    version = APIS[key].last
    client.send(key, version, request_)
    [(_, linearizable)] = client.await_responses()
    stale_request = dict(read_requests(linearizable=False))[key]
    client.send(key, version, stale_request)
    [(_, stale)] = client.await_responses()
    assert error_of(linearizable) == 0
    assert linearizable == stale


def test_p7_a_controller_listener_serves_linearizable_reads() -> None:
    client = FrameClient(make_host(), CONTROLLER, "CONTROLLER")
    client.send(ApiKey.DESCRIBE_CONFIGS, 4, dict(read_requests())[ApiKey.DESCRIBE_CONFIGS])
    [(_, response)] = client.await_responses()
    assert [result.error_code for result in response.results] == [0]


@pytest.mark.parametrize(("key", "request_"), READS)
def test_p6_without_a_leader_a_read_times_out_with_an_error(key: int, request_: Message) -> None:
    """P6: a read that may be stale gets a response at once, even without a leader."""
    node = Follower()
    version = APIS[key].last
    node.client.send(key, version, request_)
    node.host.settle()
    assert node.client.take() == []
    node.host.pass_time(READ_TIMEOUT_MS)
    node.host.settle()
    [(_, response)] = node.client.take()
    assert error_of(response) == ErrorCode.REQUEST_TIMED_OUT
    node.client.send(key, version, dict(read_requests(linearizable=False))[key])
    node.host.settle()
    [(_, response)] = node.client.take()
    assert error_of(response) != ErrorCode.REQUEST_TIMED_OUT


def test_p6_named_topics_time_out_each_with_an_error() -> None:
    node = Follower()
    topics = [TopicRequest(name="a"), TopicRequest(name="b")]
    request = DescribeTopicPartitionsRequest(topics=topics, linearizable=True)
    node.client.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    node.host.pass_time(READ_TIMEOUT_MS)
    node.host.settle()
    [(_, response)] = node.client.take()
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT),
        ("b", ErrorCode.REQUEST_TIMED_OUT),
    ]


def test_p6_reads_that_arrive_during_a_round_share_the_next_one(follower: Follower) -> None:
    follower.read()
    follower.read()
    follower.read()
    [first] = follower.peers.requests
    assert first.api_key == ApiKey.READ_OFFSET
    assert follower.codes() == []
    follower.respond(first, 0)
    assert follower.codes() == [0]
    [_, second] = follower.peers.requests
    follower.respond(second, 0)
    assert follower.codes() == [0, 0]
    assert len(follower.peers.requests) == 2


def test_p6_a_read_waits_until_its_offset_is_applied(follower: Follower) -> None:
    follower.read()
    applied = follower.host.node.quorum.applied
    follower.respond(follower.peers.requests[-1], applied + 1)
    assert follower.codes() == []
    for listener in follower.host.node.quorum.applied_listeners:
        listener(applied + 1, follower.host.now)
    follower.host.settle()
    assert follower.codes() == [0]


def test_p6_a_read_asks_the_next_leader_at_once(follower: Follower) -> None:
    follower.read()
    [first] = follower.peers.requests
    follower.follow(3, 2)
    [_, second] = follower.peers.requests
    assert second.peer == 3
    follower.respond(first, 0)
    assert follower.codes() == [], "a response of the former leader proves nothing"
    follower.respond(second, 0)
    assert follower.codes() == [0]


def test_p6_a_lost_request_is_repeated(follower: Follower) -> None:
    follower.read()
    [first] = follower.peers.requests
    follower.report(RequestFailed(READ_CHANNEL, first.peer, first.number))
    follower.host.pass_time(1000)
    follower.host.settle()
    assert len(follower.peers.requests) > 1
    follower.respond(follower.peers.requests[-1], 0)
    assert follower.codes() == [0]


def test_p7_a_leader_without_read_offset_fails_the_read(follower: Follower) -> None:
    """P7: Apache Kafka's controllers lack this API. The read fails, instead of being stale."""
    follower.read()
    [request] = follower.peers.requests
    follower.report(VersionUnsupported(READ_CHANNEL, request.peer, request.number))
    assert follower.codes() == [ErrorCode.UNSUPPORTED_VERSION]


def test_p6_a_closed_connection_cancels_its_read(follower: Follower) -> None:
    follower.read()
    [pending] = follower.client.connection.responses
    pending.abandon()
    follower.respond(follower.peers.requests[-1], 0)
    assert follower.codes() == []


def read_offset(topic: str = METADATA_TOPIC, cluster_id: str | None = None) -> ReadOffsetRequest:
    partition = ReadOffsetPartition(partition_index=0)
    return ReadOffsetRequest(
        cluster_id=cluster_id,
        read_timestamp_ms=-1,
        topics=[ReadOffsetTopic(topic_name=topic, partitions=[partition])],
    )


def send_to_controller(host: VirtualHost, request: Message) -> Any:
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    client.send(ApiKey.READ_OFFSET, 0, request)
    [(_, response)] = client.await_responses()
    return response


def test_p5_a_sole_leader_returns_its_high_watermark() -> None:
    host = make_host()
    [topic] = send_to_controller(host, read_offset()).topics
    [result] = topic.partitions
    assert (result.error_code, result.leader_id) == (0, 1)
    assert result.offset == host.node.quorum.core.log.high_watermark > 0


def test_p5_a_follower_returns_not_leader(follower: Follower) -> None:
    [topic] = send_to_controller(follower.host, read_offset()).topics
    [result] = topic.partitions
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.leader_id == 2


def test_p5_another_cluster_and_another_partition_are_refused() -> None:
    host = make_host()
    response = send_to_controller(host, read_offset(cluster_id="another"))
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    [topic] = send_to_controller(host, read_offset("demo")).topics
    [result] = topic.partitions
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_p7_read_offset_does_not_cause_a_poll_of_the_leader() -> None:
    """A poll would cost as much as the response, and no timer is due."""
    host = make_host()
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    host.node.needs_poll = False
    client.send(ApiKey.READ_OFFSET, 0, read_offset())
    host.runner.finish_turn(host.now)
    assert not host.node.needs_poll
    assert len(client.take()) == 1


def test_p5_read_offset_is_for_controller_listeners() -> None:
    assert APIS[ApiKey.READ_OFFSET].listeners == CONTROLLER != BROKER

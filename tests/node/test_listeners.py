"""Responses have the endpoints of the listener that the client is connected to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from kraftlog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.node.frame_client import FrameClient, create_topics, make_host
from tests.node.test_requests import batch, fetch, produce, produce_result
from tests.virtual_host import CLUSTER_ID

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

#: A broker that has PLAINTEXT and OUTSIDE; the virtual host, broker 1, has only PLAINTEXT.
OTHER = 2
INSIDE, OUTSIDE = ("inside", 19092), ("outside", 9092)


@pytest.fixture
def host() -> VirtualHost:
    """Broker 1 leads the topic `here`, the other broker leads `there`."""
    host = make_host(here=1, there=1)
    create_topics(host, {"__consumer_offsets": 1})
    endpoints = [
        BrokerEndpoint(name=name, host=address[0], port=address[1], security_protocol=0)
        for name, address in (("PLAINTEXT", INSIDE), ("OUTSIDE", OUTSIDE))
    ]
    register = RegisterBrokerRecord(
        broker_id=OTHER,
        incarnation_id=b"\x02" * 16,
        broker_epoch=50,
        end_points=endpoints,
        features=(),
        rack=None,
        fenced=False,
        log_dirs=(),
    )
    moved = [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=host.node.image.topic_ids[topic],
            replicas=(1, OTHER),
            isr=(OTHER,),
            leader=OTHER,
        )
        for topic in ("there", "__consumer_offsets")
    ]
    host.node.replay([register, *moved], 100)
    return host


def ask(host: VirtualHost, listener: str, api_key: int, version: int, request: Any) -> Any:
    return FrameClient(host, name=listener).ask(api_key, version, request)


def metadata(host: VirtualHost, listener: str, topic: str, version: int = 12) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=NULL_UUID, name=topic)])
    return ask(host, listener, ApiKey.METADATA, version, request)


def endpoints_of(nodes: Any, key: str = "node_id") -> dict[int, tuple[str, int]]:
    return {getattr(it, key): (it.host, it.port) for it in nodes}


def test_metadata_has_the_endpoints_of_its_listener(host: VirtualHost) -> None:
    inside = metadata(host, "PLAINTEXT", "here")
    assert endpoints_of(inside.brokers) == {1: ("127.0.0.1", 9092), OTHER: INSIDE}
    assert endpoints_of(metadata(host, "OUTSIDE", "here").brokers) == {OTHER: OUTSIDE}


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)],
)
def test_metadata_hides_a_leader_without_the_listener(
    host: VirtualHost, version: int, code: int
) -> None:
    (topic,) = metadata(host, "OUTSIDE", "here", version).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (code, -1)
    assert partition.offline_replicas == (1,)
    (topic,) = metadata(host, "PLAINTEXT", "here", version).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, 1)
    assert partition.offline_replicas == ()


def test_metadata_names_a_leader_with_the_listener(host: VirtualHost) -> None:
    (topic,) = metadata(host, "OUTSIDE", "there").topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, OTHER)


def test_describe_cluster_has_the_endpoints_of_its_listener(host: VirtualHost) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=1)
    inside = ask(host, "PLAINTEXT", ApiKey.DESCRIBE_CLUSTER, 2, request)
    assert endpoints_of(inside.brokers, "broker_id") == {1: ("127.0.0.1", 9092), OTHER: INSIDE}
    outside = ask(host, "OUTSIDE", ApiKey.DESCRIBE_CLUSTER, 2, request)
    assert endpoints_of(outside.brokers, "broker_id") == {OTHER: OUTSIDE}
    assert outside.cluster_id == CLUSTER_ID


def test_describe_topic_partitions_hides_leaders_without_the_listener(host: VirtualHost) -> None:
    topics = [TopicRequest(name=name) for name in ("here", "there")]
    request = DescribeTopicPartitionsRequest(topics=topics, cursor=None)
    response = ask(host, "OUTSIDE", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert [
        (it.partitions[0].leader_id, it.partitions[0].offline_replicas) for it in response.topics
    ] == [(-1, (1,)), (OTHER, (1,))]


@pytest.mark.parametrize(("listener", "address"), [("PLAINTEXT", INSIDE), ("OUTSIDE", OUTSIDE)])
def test_a_coordinator_is_found_at_the_clients_listener(
    host: VirtualHost, listener: str, address: tuple[str, int]
) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    (coordinator,) = ask(host, listener, ApiKey.FIND_COORDINATOR, 4, request).coordinators
    assert (coordinator.node_id, (coordinator.host, coordinator.port)) == (OTHER, address)


def test_a_coordinator_without_the_listener_is_not_available(host: VirtualHost) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    (coordinator,) = ask(host, "THIRD", ApiKey.FIND_COORDINATOR, 4, request).coordinators
    assert (coordinator.error_code, coordinator.node_id) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
    )


@pytest.mark.parametrize(
    ("listener", "hint"),
    [("PLAINTEXT", {OTHER: INSIDE}), ("OUTSIDE", {OTHER: OUTSIDE}), ("THIRD", {})],
)
def test_leader_hints_have_the_endpoint_of_the_listener(
    host: VirtualHost, listener: str, hint: dict[int, tuple[str, int]]
) -> None:
    topic_id = host.node.image.topic_ids["there"]
    request = produce(batch(b"a"), topic_id=topic_id)
    response = ask(host, listener, ApiKey.PRODUCE, 13, request)
    assert produce_result(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce_result(response).current_leader.leader_id == OTHER
    assert endpoints_of(response.node_endpoints) == hint
    fetch_request = fetch(0, current_leader_epoch=0)  # the epoch of the previous leader
    fetch_request.topics[0].topic_id = topic_id
    response = ask(host, listener, ApiKey.FETCH, 16, fetch_request)
    assert endpoints_of(response.node_endpoints) == hint

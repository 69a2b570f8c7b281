"""V1: the active controller decides AlterPartition and AssignReplicasToDirs of any broker."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.wire.apis import BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages import alter_partition, assign_replicas_to_dirs
from tests.node.frame_client import FrameClient, make_host
from tests.node.three_nodes import ThreeNodes
from tests.node.turn_cost import CALLS_OF_A_TURN, Turns

if TYPE_CHECKING:
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionImage
    from tests.virtual_host import VirtualHost


def alter_partition_request(
    image: Image, *partitions: PartitionImage
) -> alter_partition.AlterPartitionRequest:
    """A request in which the leader of these partitions proposes itself as their ISR."""
    leader = image.brokers[partitions[0].leader]
    topics = [
        alter_partition.TopicData(
            topic_id=each.topic_id,
            partitions=[
                alter_partition.PartitionData(
                    partition_index=each.index,
                    leader_epoch=each.leader_epoch,
                    partition_epoch=each.partition_epoch,
                    new_isr_with_epochs=[
                        alter_partition.BrokerState(broker_id=leader.id, broker_epoch=leader.epoch)
                    ],
                )
            ],
        )
        for each in partitions
    ]
    return alter_partition.AlterPartitionRequest(
        broker_id=leader.id, broker_epoch=leader.epoch, topics=topics
    )


def assign_directories_request(
    image: Image, *partitions: PartitionImage
) -> assign_replicas_to_dirs.AssignReplicasToDirsRequest:
    leader = image.brokers[partitions[0].leader]
    topics = [
        assign_replicas_to_dirs.TopicData(
            topic_id=each.topic_id,
            partitions=[assign_replicas_to_dirs.PartitionData(partition_index=each.index)],
        )
        for each in partitions
    ]
    directory = assign_replicas_to_dirs.DirectoryData(id=leader.directories[0], topics=topics)
    return assign_replicas_to_dirs.AssignReplicasToDirsRequest(
        broker_id=leader.id, broker_epoch=leader.epoch, directories=[directory]
    )


def test_v1_a_controller_serves_alter_partition_over_the_wire() -> None:
    host = make_host(demo=1)
    (partition,) = host.node.image.partitions.values()
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    request = alter_partition_request(host.node.image, partition)
    answer = client.ask(ApiKey.ALTER_PARTITION, 3, request)
    (result,) = answer.topics[0].partitions
    assert (answer.error_code, result.error_code) == (0, 0)
    assert (result.leader_id, result.isr, result.partition_epoch) == (1, (1,), 0)
    stale = client.ask(ApiKey.ALTER_PARTITION, 3, request.replace(broker_epoch=0))
    assert (stale.error_code, list(stale.topics)) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_alter_partition_version_2_refuses_an_isr_with_a_duplicate() -> None:
    host = make_host(demo=1)
    (partition,) = host.node.image.partitions.values()
    data = alter_partition.PartitionData(
        partition_index=0, leader_epoch=0, partition_epoch=0, new_isr=[1, 1]
    )
    topic = alter_partition.TopicData(topic_id=partition.topic_id, partitions=[data])
    request = alter_partition_request(host.node.image, partition).replace(topics=[topic])
    answer = FrameClient(host, CONTROLLER, "CONTROLLER").ask(ApiKey.ALTER_PARTITION, 2, request)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("api_key", [ApiKey.ALTER_PARTITION, ApiKey.ASSIGN_REPLICAS_TO_DIRS])
def test_clients_cannot_alter_partitions(api_key: int) -> None:
    host = make_host(demo=1)
    (partition,) = host.node.image.partitions.values()
    build: Any = (
        alter_partition_request if api_key == ApiKey.ALTER_PARTITION else assign_directories_request
    )
    version = 3 if api_key == ApiKey.ALTER_PARTITION else 0
    with pytest.raises(ProtocolError, match="is not served"):
        FrameClient(host, BROKER).send(api_key, version, build(host.node.image, partition))


def test_a_controller_serves_assign_replicas_to_dirs_over_the_wire() -> None:
    host = make_host(demo=1)
    (partition,) = host.node.image.partitions.values()
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    request = assign_directories_request(host.node.image, partition)
    answer = client.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, request)
    (result,) = answer.directories[0].topics[0].partitions
    assert (answer.error_code, result.error_code) == (0, 0)


@pytest.mark.parametrize("api_key", [ApiKey.ALTER_PARTITION, ApiKey.ASSIGN_REPLICAS_TO_DIRS])
def test_a_request_about_many_partitions_takes_many_turns(api_key: int) -> None:
    host = make_host(many=3000)
    partitions = list(host.node.image.partitions.values())
    build: Any = (
        alter_partition_request if api_key == ApiKey.ALTER_PARTITION else assign_directories_request
    )
    request = build(host.node.image, *partitions)
    version = 3 if api_key == ApiKey.ALTER_PARTITION else 0
    turns = Turns(host, api_key, version, request, CONTROLLER)
    assert turns.answer.error_code == 0
    assert turns.others_answered >= 3
    assert turns.longest < CALLS_OF_A_TURN


def test_v1_requests_of_every_broker_reach_the_active_controller() -> None:
    """A node that is not the active controller sends them to the active one."""
    cluster = ThreeNodes(Random(1))
    cluster.loss = 0.0
    image = cluster.host.node.image
    for node_id, host in cluster.hosts.items():
        led = [each for each in image.partitions.values() if each.leader == node_id]
        assert led, "every broker leads a partition"
        for api_key, version, request in (
            (ApiKey.ALTER_PARTITION, 3, alter_partition_request(image, *led)),
            (ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, assign_directories_request(image, *led)),
        ):
            answer = send_to_controller(cluster, host, api_key, version, request)
            assert answer is not None
            assert answer.error_code == 0


def send_to_controller(
    cluster: ThreeNodes, host: VirtualHost, api_key: int, version: int, request: Any
) -> Any:
    """Send a request on a node's `ControllerChannel`; return the response."""
    responses: list[Any] = []
    host.node.controller_channel.send(
        api_key, version, request, lambda response, _: responses.append(response), host.now
    )
    cluster.settle(100)
    (response,) = responses
    return response


def test_v1_a_controller_that_is_not_active_refuses_alter_partition() -> None:
    """C240: the error is NOT_CONTROLLER."""
    cluster = ThreeNodes(Random(1))
    image = cluster.host.node.image
    (other, *_) = [host for host in cluster.hosts.values() if not host.node.quorum.is_leader]
    led = [each for each in image.partitions.values() if each.leader == 1]
    client = FrameClient(other, CONTROLLER, "CONTROLLER")
    answer = client.ask(ApiKey.ALTER_PARTITION, 3, alter_partition_request(image, *led))
    assert answer.error_code == ErrorCode.NOT_CONTROLLER

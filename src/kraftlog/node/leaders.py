"""Current leaders of partitions, for responses."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.fetch import FetchResponse

#: Leader and leader epoch of an unknown partition.
NO_LEADER_OR_EPOCH = -1, -1
#: The errors of a fetch after which the client needs the current leader.
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
#: The number of partitions in a step.
PARTITIONS_PER_STEP = 100


def leader_of(image: Image, topic: str, topic_id: Uuid, index: int) -> tuple[int, int]:
    """Leader and leader epoch in the image; the topic is named by id or by name."""
    if topic_id == NULL_UUID:
        topic_id = image.topic_ids.get(topic, NULL_UUID)
    partition = image.partitions.get((topic_id, index))
    return NO_LEADER_OR_EPOCH if partition is None else (partition.leader, partition.leader_epoch)


def add_leader_endpoint(
    node: ServingNode, pending: PendingResponse, leader: int, response: Any, endpoint_type: Any
) -> None:
    """Add a leader's endpoint to a response once; `endpoint_type` is the struct for it.

    A leader that is fenced, or lacks the listener that the client uses, is left out.
    """
    if leader in [endpoint.node_id for endpoint in response.node_endpoints]:
        return
    broker = node.image.brokers.get(leader)
    if broker is None or broker.fenced:
        return
    endpoint = broker.endpoint(pending.connection.listener_name)
    if endpoint is None:
        return
    response.node_endpoints = [
        *response.node_endpoints,
        endpoint_type(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack),
    ]


def add_current_leaders(
    node: ServingNode, pending: PendingResponse, response: FetchResponse
) -> Iterator[int]:
    """Add the current leaders for a client with outdated metadata (KIP-951); yields the costs."""
    from kraftlog.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint

    for topic in response.responses:
        for number, data in enumerate(topic.partitions, 1):
            # Partitions that are encoded already have no error.
            if getattr(data, "error_code", 0) in _LEADER_ERRORS:
                leader, epoch = leader_of(
                    node.image, topic.topic, topic.topic_id, data.partition_index
                )
                data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                add_leader_endpoint(node, pending, leader, response, NodeEndpoint)
            if not number % PARTITIONS_PER_STEP:
                yield PARTITIONS_PER_STEP
        yield 1

"""Metadata 0-13: brokers, topics and leaders, from the image.

Null topics (in version 0: none) ask for all of them. Topics can be asked for by id from version 12
on. Missing: creating topics that do not exist, authorized operations.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import NO_LEADER
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kraftlog.metadata.image import Image, PartitionImage, TopicImage
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now
    from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

#: The first version in which a topic may be asked for by its id alone.
BY_ID_SINCE = 12


def handle(node: Node, slot: Slot, request: MetadataRequest, now: Now) -> None:  # noqa: ARG001 - every handler is called alike
    image = node.image
    asked = request.topics
    if asked is None or (not asked and slot.version == 0):
        topics = [_known(image, topic) for topic in image.topics.values()]
    else:
        topics = [_asked_for(image, topic, slot.version) for topic in asked]
    brokers = [
        MetadataResponseBroker(node_id=b.id, host=b.host, port=b.port, rack=b.rack)
        for b in image.brokers.values()
    ]
    slot.answer(
        MetadataResponse(
            brokers=brokers,
            cluster_id=node.config.cluster_id,
            # Clients send admin requests to the node named here: a live broker passes them on.
            controller_id=node.config.node_id,
            topics=topics,
        )
    )


def _asked_for(image: Image, asked: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    if version < BY_ID_SINCE and asked.name is None:
        # These versions can leave a name out, yet can neither ask by id nor answer without a name.
        return MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name="", topic_id=NULL_UUID, partitions=()
        )
    by_id = version >= BY_ID_SINCE and asked.topic_id != NULL_UUID
    if by_id:
        topic = image.topics.get(asked.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topic_named(asked.name or "")
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is not None:
        return _known(image, topic)
    return MetadataResponseTopic(
        error_code=code,
        name=asked.name if not by_id else None,
        topic_id=asked.topic_id,
        partitions=(),
    )


def _known(image: Image, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        partitions=[_partition(p) for p in image.partitions_of(topic)],
    )


def _partition(image: PartitionImage) -> MetadataResponsePartition:
    offline = image.leader == NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if offline else ErrorCode.NONE,
        partition_index=image.index,
        leader_id=image.leader,
        leader_epoch=image.leader_epoch,
        replica_nodes=image.replicas,
        isr_nodes=image.isr,
    )

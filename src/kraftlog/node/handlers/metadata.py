"""Metadata 0-13: brokers, topics and leaders, from the image.

Null topics (in version 0: none) ask for all of them. Topics can be asked for by id from version 12
on. A topic that is not there is made, if asker and settings allow it; the answer waits for it.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import NO_LEADER
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import encode_piece
from kraftlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionImage, TopicImage
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now
    from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    #: How a topic is reported: version, authorized operations, brokers that the client can't reach.
    Form = tuple[int, int, tuple[int, ...]]

#: The first version in which a topic may be asked for by its id alone.
BY_ID_SINCE = 12
#: Versions in which making topics can't be declined.
ALWAYS_CREATES_UNTIL = 3
#: The first version whose clients know that a leader may lack their listener.
LISTENER_NOT_FOUND_SINCE = 6
#: What may be done with a topic where nobody is kept from anything, as bits: read, write, create,
#: delete, alter, describe, describe configs, alter configs.
ALL_TOPIC_OPERATIONS = sum([1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11)])
NOT_ASKED_FOR = -(2**31)
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def is_internal(topic: str) -> bool:
    return topic in INTERNAL


def offline_replicas(
    image: Image, partition: PartitionImage, unreachable: Collection[int]
) -> list[int]:
    """Replicas on brokers that are gone, fenced, or lack the client's listener."""
    brokers = image.brokers
    return [
        replica
        for replica in partition.replicas
        if replica not in brokers or brokers[replica].fenced or replica in unreachable
    ]


def handle(node: Node, slot: Slot, request: MetadataRequest, now: Now) -> None:
    wanted = _to_create(node, slot, request)
    if not wanted:
        slot.answer(_answer(node, slot, request))
        return
    from kraftlog.node.creating import create_topics

    def made(codes: dict[str, int], _: Now) -> None:
        slot.answer(_answer(node, slot, request, codes))

    create_topics(node, wanted, made, now)


def _to_create(node: Node, slot: Slot, request: MetadataRequest) -> list[str]:
    """Names that were asked for and may be made into topics."""
    may = request.allow_auto_topic_creation or slot.version <= ALWAYS_CREATES_UNTIL
    if not may or not request.topics or not node.config.settings.auto_create_topics_enable:
        return []
    names = [topic.name for topic in request.topics if topic.topic_id == NULL_UUID]
    return [name for name in names if name and name not in node.image.topic_ids]


def _answer(
    node: Node, slot: Slot, request: MetadataRequest, codes: dict[str, int] | None = None
) -> MetadataResponse:
    image = node.image
    asked = request.topics
    listener = slot.connection.listener_name
    operations = NOT_ASKED_FOR
    if request.include_topic_authorized_operations:
        operations = ALL_TOPIC_OPERATIONS
    form = slot.version, operations, image.brokers_without(listener)
    if asked is None or (not asked and slot.version == 0):
        topics = [_known(node, topic, form) for topic in image.topics.values()]
    else:
        topics = [_asked_for(node, it, form, codes or {}) for it in asked]
    brokers = [
        MetadataResponseBroker(node_id=b.id, host=at.host, port=at.port, rack=b.rack)
        for b in image.brokers.values()
        if not b.fenced and (at := b.endpoint(listener))
    ]
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=node.config.cluster_id,
        # Clients send admin requests to the node named here: a live broker passes them on.
        controller_id=node.config.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        from kraftlog.node.handlers.describe_cluster import ALL_OPERATIONS

        response.cluster_authorized_operations = ALL_OPERATIONS
    return response


def _asked_for(
    node: Node,
    asked: MetadataRequestTopic,
    form: Form,
    codes: dict[str, int],
) -> MetadataResponseTopic:
    version = form[0]
    if version < BY_ID_SINCE and asked.name is None:
        # These versions can leave a name out, yet can neither ask by id nor answer without a name.
        return MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name="", topic_id=NULL_UUID, partitions=()
        )
    image = node.image
    by_id = version >= BY_ID_SINCE and asked.topic_id != NULL_UUID
    if by_id:
        topic = image.topics.get(asked.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        name = asked.name or ""
        topic = image.topic_named(name)
        code = codes.get(name) or _why_not(name)
    if topic is not None:
        return _known(node, topic, form)
    return MetadataResponseTopic(
        error_code=code,
        name=asked.name if not by_id else None,
        topic_id=asked.topic_id,
        partitions=(),
    )


def _why_not(name: str) -> int:
    from kraftlog.controller.topics import invalid_name

    if invalid_name(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _known(node: Node, topic: TopicImage, form: Form) -> MetadataResponseTopic:
    """A topic that is there, as the bytes that stand for it: most often they are known."""
    piece = node.topic_pieces.get(topic.id, form)
    if piece is None:
        told = _told(node.image, topic, form)
        piece = encode_piece(MetadataResponse, form[0], told)
        node.topic_pieces.keep(topic.id, form, piece)
    return piece  # type: ignore[no-any-return]  # bytes that stand for a struct


def _reachable(leader: int, unreachable: Collection[int], version: int) -> tuple[int, int]:
    """A leader as far as the client can reach it, and the error code of its partition."""
    if leader == NO_LEADER:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if leader not in unreachable:
        return leader, ErrorCode.NONE
    if version < LISTENER_NOT_FOUND_SINCE:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND


def _told(image: Image, topic: TopicImage, form: Form) -> MetadataResponseTopic:
    version, operations, unreachable = form
    #: By replicas: whole topics have few different ones.
    offline: dict[tuple[int, ...], list[int]] = {}
    partitions = []
    for partition in image.partitions_of(topic):
        replicas = partition.replicas
        if replicas not in offline:
            offline[replicas] = offline_replicas(image, partition, unreachable)
        leader, code = _reachable(partition.leader, unreachable, version)
        partitions.append(
            MetadataResponsePartition(
                error_code=code,
                partition_index=partition.index,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=partition.isr,
                offline_replicas=offline[replicas],
            )
        )
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )

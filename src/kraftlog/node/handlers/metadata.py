"""Metadata 0-13: brokers, topics and leaders, from the image.

A null list of topics (in version 0: an empty list) means all. Versions from 12 on can name topics
by id. Missing topics are created if request and settings allow it, and the response waits for
that.
"""

from __future__ import annotations

from kraftlog.authorization.acls import Operation, ResourceType
from kraftlog.controller.decision import RECORDS_IN_BATCH
from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import NO_LEADER
from kraftlog.metadata.values import TopicImage, is_internal
from kraftlog.node.access import asked_of
from kraftlog.node.handlers.consistency import linearizable_on_request
from kraftlog.node.handlers.metadata_topic import describe_topic, is_metadata_topic
from kraftlog.steps import drained
from kraftlog.types import METADATA_TOPIC, METADATA_TOPIC_ID, NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import encode_piece, encode_piece_in_steps
from kraftlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionImage
    from kraftlog.node.access.asked import Asked
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    #: How a topic is reported: version, authorized operations, brokers that the client can't reach.
    Form = tuple[int, int, tuple[int, ...]]

#: The first version in which topics can be named by id alone.
BY_ID_SINCE = 12
#: The last version whose clients cannot turn off automatic topic creation.
ALWAYS_CREATES_UNTIL = 3
#: The first version with LISTENER_NOT_FOUND.
LISTENER_NOT_FOUND_SINCE = 6
#: All operations on a topic, without an authorizer, as bits: read, write, create, delete, alter,
#: describe, describe configs, alter configs.
ALL_TOPIC_OPERATIONS = sum([1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11)])
#: Instead of operations.
NOT_REQUESTED = -(2**31)
#: Names that are looked up in a slice; four take a microsecond.
NAMES_PER_SLICE = 100
#: Partitions that are described in a slice, each in two microseconds; more are encoded in steps.
PARTITIONS_PER_SLICE = 100
#: Microseconds in a slice that collects topics; a cached topic takes one.
COLLECTED_US_PER_SLICE = 100
#: Microseconds for a topic besides its partitions, and for one that is refused.
TOPIC_COST = 10
UNKNOWN_COST = 3
#: Microseconds to find out that a topic may not be described.
DENIED_COST = 10


def offline_replicas(
    image: Image, partition: PartitionImage, unreachable: Collection[int]
) -> list[int]:
    """Replicas on brokers that are unregistered, fenced or without the client's listener."""
    brokers = image.brokers
    return [
        replica
        for replica in partition.replicas
        if replica not in brokers or brokers[replica].fenced or replica in unreachable
    ]


@linearizable_on_request
def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: MetadataRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    missing = yield from _to_create(node, pending, request)
    if not missing:
        until_ms = node.failed_leaders.waits_until_ms(_partitions(node, request), node.now)
        if until_ms:
            _respond_after_election(node, pending, request, until_ms)
        else:
            yield from _respond(node, pending, request, {})
        return
    from kraftlog.node.auto_topic_creation import create_topics

    def on_created(codes: dict[str, int], _: Now) -> None:
        node.sliced.run(pending, _respond(node, pending, request, codes))

    client = node.client_quotas.creator_of(pending)
    create_topics(node, missing, on_created, node.now, client)


def _partitions(node: ServingNode, request: MetadataRequest) -> Iterator[PartitionImage]:
    """The partitions that a request names by their topics; of all topics, none."""
    for requested in request.topics or ():
        topic = _find(node.image, requested, BY_ID_SINCE)
        if topic is not None:
            yield from node.image.partitions_of(topic)


def _respond_after_election(
    node: ServingNode, pending: PendingResponse, request: MetadataRequest, until_ms: int
) -> None:
    """Respond when the failed leader is replaced, at the latest at a time."""
    from kraftlog.node.broker.failed_leaders import DelayedMetadata

    delayed = DelayedMetadata(
        pending, lambda: node.sliced.run(pending, _respond(node, pending, request, {}))
    )
    node.failed_leaders.wait(delayed)
    node.wait(delayed, until_ms)


def _to_create(
    node: ServingNode, pending: PendingResponse, request: MetadataRequest
) -> Generator[int, None, Collection[str]]:
    """The names of missing topics to create, without duplicates.

    Empty if there are too many: the controller refuses such a request as a whole.
    """
    is_allowed = request.allow_auto_topic_creation or pending.version <= ALWAYS_CREATES_UNTIL
    if not is_allowed or not request.topics or not node.config.settings.auto_create_topics_enable:
        return ()
    missing: dict[str, None] = {}
    for number, topic in enumerate(request.topics, 1):
        name = topic.name
        if name == METADATA_TOPIC:
            continue
        if name and topic.topic_id == NULL_UUID and name not in node.image.topic_ids:
            missing[name] = None
            if len(missing) > RECORDS_IN_BATCH:
                return ()
        if not number % NAMES_PER_SLICE:
            yield NAMES_PER_SLICE // 4
    return missing


def _respond(
    node: ServingNode, pending: PendingResponse, request: MetadataRequest, codes: dict[str, int]
) -> Iterator[int]:
    asked = asked_of(node, pending, request)
    listener = pending.connection.listener_name
    unreachable = node.image.brokers_without(listener)
    topics: list[MetadataResponseTopic] = []
    reported: set[Uuid] = set()
    work = 0
    for requested in _requested(node, pending, request, asked):
        if isinstance(requested, TopicImage):
            topic: TopicImage | None = requested
        elif requested is None:
            work += DENIED_COST
            continue
        elif is_metadata_topic(requested.name, requested.topic_id):
            if METADATA_TOPIC_ID not in reported:
                reported.add(METADATA_TOPIC_ID)
                operations = _operations(request, asked, METADATA_TOPIC)
                topics.append(describe_topic(node, listener, operations))
            continue
        else:
            topic = _find(node.image, requested, pending.version)
        if topic is None:
            assert not isinstance(requested, TopicImage), "an existing topic is found"
            topics.append(_refused(requested, pending.version, codes))
            work += UNKNOWN_COST
        elif topic.id in reported:
            work += 1  # as in Kafka, a topic that is named twice is returned once
        elif topic.id in node.image.topics:  # else it has since been deleted
            reported.add(topic.id)
            form = pending.version, _operations(request, asked, topic.name), unreachable
            encoded = node.encoded_topics.get(topic.id, form)
            encoded = encoded or (yield from _encode_and_cache(node, topic, form))
            if encoded is not None:
                topics.append(encoded)
            elif not isinstance(requested, TopicImage):
                topics.append(_refused(requested, pending.version, codes))
            work += 1
        if work >= COLLECTED_US_PER_SLICE:
            yield work
            work = 0
    yield work
    response = _response(node, request, asked, listener, topics)
    yield from pending.respond_in_steps(response, len(topics))


def _requested(
    node: ServingNode, pending: PendingResponse, request: MetadataRequest, asked: Asked | None
) -> Iterator[TopicImage | MetadataRequestTopic | None]:
    """The requested topics, which the request no longer has afterwards.

    None instead of one that the client of a request for all topics may not describe.
    """
    named, request.topics = request.topics, ()
    # In version 0 an empty list means all topics, unless those that it had were denied.
    if named or (named is not None and (pending.version > 0 or pending.complete is not None)):
        yield from drained(named)
        return
    for topic in list(node.image.topics.values()):
        if asked is None or asked.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            yield topic
        else:
            yield None


def _operations(request: MetadataRequest, asked: Asked | None, name: str) -> int:
    """What the client may do with a topic, as bits."""
    if not request.include_topic_authorized_operations:
        return NOT_REQUESTED
    if asked is None:
        return ALL_TOPIC_OPERATIONS
    return asked.operations(ResourceType.TOPIC, name)


def _response(
    node: ServingNode,
    request: MetadataRequest,
    asked: Asked | None,
    listener: str,
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in node.image.brokers.values()
            if node.failed_leaders.names(broker) and (endpoint := broker.endpoint(listener))
        ],
        cluster_id=node.cluster_id,
        # Clients send admin requests to the node named here: this broker forwards them.
        controller_id=node.config.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        from kraftlog.node.handlers.describe_cluster import ALL_OPERATIONS

        response.cluster_authorized_operations = (
            ALL_OPERATIONS if asked is None else asked.operations_on_cluster()
        )
    return response


def _find(image: Image, requested: MetadataRequestTopic, version: int) -> TopicImage | None:
    if version >= BY_ID_SINCE and requested.topic_id != NULL_UUID:
        return image.topics.get(requested.topic_id)
    return image.topic_named(requested.name or "")


def _refused(
    requested: MetadataRequestTopic, version: int, codes: dict[str, int]
) -> MetadataResponseTopic:
    """The error response for a topic that is unknown, or whose creation failed."""
    name: str | None
    if version < BY_ID_SINCE and requested.name is None:
        # Versions 10 and 11 allow a null name in requests, but not in responses. Both have topic
        # ids, but do not find topics by them.
        code, name, topic_id = ErrorCode.INVALID_REQUEST, "", NULL_UUID
    elif version >= BY_ID_SINCE and requested.topic_id != NULL_UUID:
        code, name, topic_id = ErrorCode.UNKNOWN_TOPIC_ID, None, requested.topic_id
    else:
        code = codes.get(requested.name or "") or unknown_topic_error(requested.name or "")
        name, topic_id = requested.name, requested.topic_id
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=())


def unknown_topic_error(name: str) -> int:
    from kraftlog.controller.topics import invalid_name

    if invalid_name(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _encode_and_cache(
    node: ServingNode, topic: TopicImage, form: Form
) -> Generator[int, None, MetadataResponseTopic | None]:
    """Encode a topic and cache it, unless anything in the image changes meanwhile.

    None: the topic has been deleted meanwhile. The result has no gaps: it has all partitions below
    its count, though more may have been added since.
    """
    cache = node.encoded_topics
    while True:
        changes = cache.changes
        result = yield from _topic(node, topic, form)
        current = node.image.topics.get(topic.id)
        if current is None:
            return None
        if current.partition_count >= topic.partition_count:
            break
        topic = current  # with fewer partitions some may be missing: encode again
    if len(result.partitions) <= PARTITIONS_PER_SLICE:
        encoded = encode_piece(MetadataResponse, form[0], result)
    else:
        encoded = yield from encode_piece_in_steps(MetadataResponse, form[0], result)
    yield TOPIC_COST
    if cache.changes == changes:
        cache.keep(topic.id, form, encoded)
    return encoded


def _leader_and_error(leader: int, unreachable: Collection[int], version: int) -> tuple[int, int]:
    """The leader and error code of a partition; no leader if the client cannot reach it."""
    if leader == NO_LEADER:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if leader not in unreachable:
        return leader, ErrorCode.NONE
    if version < LISTENER_NOT_FOUND_SINCE:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND


def _topic(
    node: ServingNode, topic: TopicImage, form: Form
) -> Generator[int, None, MetadataResponseTopic]:
    version, operations, unreachable = form
    #: By replicas: a topic has few different assignments.
    offline: dict[tuple[int, ...], list[int]] = {}
    partitions = []
    for partition in node.image.partitions_of(topic):
        replicas = partition.replicas
        if replicas not in offline:
            offline[replicas] = offline_replicas(node.image, partition, unreachable)
        leader, code = _leader_and_error(partition.leader, unreachable, version)
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
        if not len(partitions) % PARTITIONS_PER_SLICE:
            yield 2 * PARTITIONS_PER_SLICE
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )

"""Requests about topics: what is not allowed is taken out, and answered as Kafka answers it."""

from __future__ import annotations

from kraftlog.authorization.acls import Operation, ResourceType
from kraftlog.errors import ErrorCode, UnansweredError
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.access.asked import Asked

    Check = Callable[[Asked], bool]

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
#: The first version of Metadata that names topics by id.
METADATA_BY_ID_SINCE = 12
#: The last version of Metadata whose clients cannot turn off automatic topic creation.
ALWAYS_CREATES_UNTIL = 3
#: The first version of CreateTopics whose responses have configs.
CONFIGS_SINCE = 5
#: The first version of DeleteTopics that names topics by id.
DELETE_BY_ID_SINCE = 6


def _partitions_of(
    topic: Any, result: Any, partitions: str, index: str, **fields: Any
) -> list[Any]:
    """A result for each partition of a requested topic, which may be named by bare numbers."""
    return [
        result(**{index: each if isinstance(each, int) else getattr(each, index)}, **fields)
        for each in getattr(topic, partitions)
    ]


# By name -----------------------------------------------------------------------------------------


def list_offsets(asked: Asked) -> bool:
    from kraftlog.wire.messages import list_offsets as api

    def refused(topic: Any) -> Any:
        results = _partitions_of(
            topic,
            api.ListOffsetsPartitionResponse,
            "partitions",
            "partition_index",
            error_code=DENIED,
        )
        return api.ListOffsetsTopicResponse(name=topic.name, partitions=results)

    return asked.split("topics", _named(asked, Operation.DESCRIBE), "topics", refused)


def describe_producers(asked: Asked) -> bool:
    from kraftlog.wire.messages import describe_producers as api

    def refused(topic: Any) -> Any:
        results = [
            api.PartitionResponse(partition_index=each, error_code=DENIED, active_producers=())
            for each in topic.partition_indexes
        ]
        return api.TopicResponse(name=topic.name, partitions=results)

    return asked.split("topics", _named(asked, Operation.READ), "topics", refused)


def delete_records(asked: Asked) -> bool:
    from kraftlog.wire.messages import delete_records as api

    def refused(topic: Any) -> Any:
        results = _partitions_of(
            topic,
            api.DeleteRecordsPartitionResult,
            "partitions",
            "partition_index",
            low_watermark=-1,
            error_code=DENIED,
        )
        return api.DeleteRecordsTopicResult(name=topic.name, partitions=results)

    return asked.split("topics", _named(asked, Operation.DELETE), "topics", refused)


def offset_for_leader_epoch(asked: Asked) -> bool:
    """Followers may ask about every topic, and consumers about those that they may describe."""
    from kraftlog.wire.messages import offset_for_leader_epoch as api

    if asked.may_on_cluster(Operation.CLUSTER_ACTION):
        return True

    def refused(topic: Any) -> Any:
        results = [
            api.EpochEndOffset(error_code=DENIED, partition=each.partition)
            for each in topic.partitions
        ]
        return api.OffsetForLeaderTopicResult(topic=topic.topic, partitions=results)

    return asked.split(
        "topics",
        lambda topic: asked.allows_on_topic(Operation.DESCRIBE, topic.topic),
        "topics",
        refused,
    )


def create_partitions(asked: Asked) -> bool:
    from kraftlog.wire.messages.create_partitions import CreatePartitionsTopicResult as Result

    return asked.split(
        "topics",
        _named(asked, Operation.ALTER),
        "results",
        lambda topic: Result(name=topic.name, error_code=DENIED),
    )


def remove_partitions(asked: Asked) -> bool:
    """They take their records with them."""
    from kraftlog.wire.messages.remove_partitions import RemovePartitionsTopicResult as Result

    return asked.split(
        "topics",
        _named(asked, Operation.DELETE),
        "results",
        lambda topic: Result(name=topic.name, error_code=DENIED),
    )


def _named(asked: Asked, operation: int) -> Callable[[Any], bool]:
    return lambda topic: asked.allows_on_topic(operation, topic.name)


def create_topics(asked: Asked) -> bool:
    """Who may create topics does not see their configs without DESCRIBE_CONFIGS."""
    from kraftlog.wire.messages.create_topics import CreatableTopicResult as Result

    may_create = asked.may_on_cluster(Operation.CREATE)
    if asked.pending.version >= CONFIGS_SINCE:
        asked.then(lambda response: _hide_configs(asked, response))
    return may_create or asked.split(
        "topics",
        _named(asked, Operation.CREATE),
        "topics",
        lambda topic: Result(name=topic.name, error_code=DENIED),
    )


def _hide_configs(asked: Asked, response: Any) -> None:
    for topic in response.topics:
        if not topic.error_code and not asked.may(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name
        ):
            topic.topic_config_error_code = DENIED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = ()


def delete_topics(asked: Asked) -> bool:
    """By id, a topic that may not even be described stays nameless.

    A topic that this node doesn't know yet is unknown: the controller may know it, and would not
    ask again.
    """
    from kraftlog.wire.messages.delete_topics import DeletableTopicResult as Result

    if asked.may_on_cluster(Operation.DELETE):
        return True
    if asked.pending.version < DELETE_BY_ID_SINCE:
        return asked.split(
            "topic_names",
            lambda name: asked.allows_on_topic(Operation.DELETE, name),
            "responses",
            lambda name: Result(name=name, error_code=DENIED),
        )

    def is_allowed(topic: Any) -> bool:
        name = asked.topic_name(topic.name, topic.topic_id)
        return name is not None and asked.allows_on_topic(Operation.DELETE, name)

    def refused(topic: Any) -> Any:
        name = asked.topic_name(topic.name, topic.topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return Result(name=None, topic_id=topic.topic_id, error_code=code)
        is_shown = topic.topic_id == NULL_UUID or asked.may(
            Operation.DESCRIBE, ResourceType.TOPIC, name
        )
        return Result(name=name if is_shown else None, topic_id=topic.topic_id, error_code=DENIED)

    return asked.split("topics", is_allowed, "responses", refused)


# Metadata ----------------------------------------------------------------------------------------


def metadata(asked: Asked) -> bool:
    """All topics are those that the client may describe: the handler leaves the others out."""
    request, version = asked.request, asked.pending.version
    if not request.topics:
        return True
    may_create_any = asked.may_on_cluster(Operation.CREATE)
    creates = request.allow_auto_topic_creation or version <= ALWAYS_CREATES_UNTIL
    creates = creates and asked.node.config.settings.auto_create_topics_enable

    def is_allowed(topic: Any) -> bool:
        by_id = version >= METADATA_BY_ID_SINCE
        name = asked.topic_name(topic.name, topic.topic_id if by_id else NULL_UUID)
        if not name:
            return True  # the handler refuses it
        if not asked.allows_on_topic(Operation.DESCRIBE, name):
            return False
        exists = not creates or may_create_any or asked.node.image.topic_named(name) is not None
        return exists or asked.allows_on_topic(Operation.CREATE, name)

    def refused(topic: Any) -> Any:
        from kraftlog.wire.messages.metadata import MetadataResponseTopic

        if version >= METADATA_BY_ID_SINCE and topic.topic_id != NULL_UUID:
            return MetadataResponseTopic(
                error_code=DENIED, name=None, topic_id=topic.topic_id, partitions=()
            )
        return MetadataResponseTopic(
            error_code=DENIED, name=topic.name, topic_id=NULL_UUID, partitions=()
        )

    kept, denied = [], []
    for topic in request.topics:
        if is_allowed(topic):
            kept.append(topic)
        else:
            denied.append(refused(topic))
    if denied:
        request.topics = kept
        asked.add("topics", denied)
    return True


def describe_topic_partitions(asked: Asked) -> bool:
    from kraftlog.wire.messages import describe_topic_partitions as api

    request, image = asked.request, asked.node.image
    if not request.topics:
        names = [
            name
            for name in image.topic_ids
            if asked.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
        ]
        if not names:
            asked.respond(topics=(), next_cursor=None)
            return False
        request.topics = [api.TopicRequest(name=name) for name in names]
    asked.then(lambda response: _set_operations(asked, response))

    def refused(topic: Any) -> Any:
        return api.DescribeTopicPartitionsResponseTopic(
            error_code=DENIED, name=topic.name, topic_id=NULL_UUID, partitions=()
        )

    return asked.split(
        "topics", _named(asked, Operation.DESCRIBE), "topics", refused, next_cursor=None
    )


def _set_operations(asked: Asked, response: Any) -> None:
    for topic in response.topics:
        if not topic.error_code:
            operations = asked.operations(ResourceType.TOPIC, topic.name)
            topic.topic_authorized_operations = operations


# Records -----------------------------------------------------------------------------------------


def produce(asked: Asked) -> bool:
    from kraftlog.wire.messages import produce as api

    request = asked.request

    def refused_with(code: int) -> Callable[[Any], Any]:
        def refused(topic: Any) -> Any:
            results = [
                api.PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                for part in topic.partition_data
            ]
            return api.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=results
            )

        return refused

    def is_allowed(topic: Any) -> bool:
        name = asked.topic_name(topic.name, topic.topic_id)
        return name is None or asked.allows_on_topic(Operation.WRITE, name)

    may_transact = request.transactional_id is None or asked.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    )
    if not request.acks and not (may_transact and all(map(is_allowed, request.topic_data))):
        # A closed connection is the only answer that a producer without acks understands.
        asked.pending.connection.fail(UnansweredError("Produce with acks=0 is not allowed"))
        asked.pending.respond_nothing()
        return False
    if not may_transact:
        refused = refused_with(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return asked.split("topic_data", lambda _: False, "responses", refused)
    return asked.split("topic_data", is_allowed, "responses", refused_with(DENIED))

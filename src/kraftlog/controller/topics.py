"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from itertools import chain

from kraftlog.config.keys import TOPIC
from kraftlog.controller.configs import check_configs, described_configs
from kraftlog.controller.decision import (
    RECORDS_IN_BATCH,
    TOO_LARGE,
    Decision,
    Refusal,
    count_names,
)
from kraftlog.controller.partition_change import default_directory
from kraftlog.controller.placement import place_in_steps
from kraftlog.controller.state import collision_name
from kraftlog.errors import ErrorCode
from kraftlog.metadata.snapshot import partition_record
from kraftlog.metadata.values import PartitionImage
from kraftlog.steps import drained
from kraftlog.types import METADATA_TOPIC, NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import create_topics as topics_api
from kraftlog.wire.messages import delete_topics as deletion_api
from kraftlog.wire.messages.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.metadata.values import TopicImage
    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

    Placement = Sequence[tuple[int, ...]]

#: As in Kafka: with the partition number, the topic name is also the name of a directory.
MAX_NAME_LENGTH = 249
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
#: In a request: use the configured default.
DEFAULT = -1
#: Costs of steps in microseconds; the cost of a topic is without its partitions.
TOPIC_COST, ASSIGNMENT_COST, PARTITION_COST, DELETION_COST = 30, 2, 5, 3
#: Topics that are refused in one step, which costs as many microseconds.
REFUSED_AT_ONCE = 50


# Creating topics ---------------------------------------------------------------------------------


def decide_create_topics(
    state: ControllerState, request: topics_api.CreateTopicsRequest, context: Context
) -> DecisionInSteps:
    """CreateTopics; topics succeed or fail independently (V4)."""
    if _is_too_large(request):
        why = "Excessively large number of partitions per request."
        return (yield from _refuse_all(request, Refusal(ErrorCode.POLICY_VIOLATION, why)))
    counts = yield from count_names(topic.name for topic in request.topics)
    records: list[Message] = []
    results = []
    created_topics = _CreatedTopics()
    for topic in {topic.name: topic for topic in request.topics}.values():
        outcome: _NewTopic | Refusal
        if counts[topic.name] > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            outcome = yield from _new_topic(state, topic, created_topics, context)
        yield TOPIC_COST
        if isinstance(outcome, Refusal):
            results.append(_refused(topic.name, outcome))
            continue
        created_topics.names[collision_name(topic.name)] = topic.name
        records += outcome.records
        results.append(outcome.result)
    if len(records) > RECORDS_IN_BATCH:
        return (yield from _refuse_all(request, TOO_LARGE))
    response = topics_api.CreateTopicsResponse(topics=results)
    return Decision([] if request.validate_only else records, response)


def _is_too_large(request: topics_api.CreateTopicsRequest) -> bool:
    left = RECORDS_IN_BATCH
    for topic in request.topics:
        left -= len(topic.assignments) or max(topic.num_partitions, 1)
        if left < 0:
            return True
    return False


def _refuse_all(request: topics_api.CreateTopicsRequest, refusal: Refusal) -> DecisionInSteps:
    refused = []
    for topic in request.topics:
        refused.append(_refused(topic.name, refusal))
        if not len(refused) % REFUSED_AT_ONCE:
            yield REFUSED_AT_ONCE
    return Decision([], topics_api.CreateTopicsResponse(topics=refused))


def _refused(name: str, refusal: Refusal) -> topics_api.CreatableTopicResult:
    return topics_api.CreatableTopicResult(
        name=name, error_code=refusal.code, error_message=refusal.message
    )


class _CreatedTopics:
    """What the topics of one request share: names so far, and configs for the responses."""

    __slots__ = ("described", "names")

    def __init__(self) -> None:
        #: Collision name -> topic name.
        self.names: dict[str, str] = {}
        #: A topic's own configs, as (name, value) -> all its configs.
        self.described: dict[
            tuple[tuple[str, str | None], ...], list[topics_api.CreatableTopicConfigs]
        ] = {}

    def configs(
        self, state: ControllerState, topic: topics_api.CreatableTopic, context: Context
    ) -> list[topics_api.CreatableTopicConfigs]:
        own = tuple((config.name, config.value) for config in topic.configs)
        if own not in self.described:
            self.described[own] = described_configs(state, topic, context)
        return self.described[own]


class _NewTopic:
    __slots__ = ("records", "result")

    def __init__(self, records: list[Message], result: topics_api.CreatableTopicResult) -> None:
        self.records = records
        self.result = result


def _new_topic(
    state: ControllerState,
    topic: topics_api.CreatableTopic,
    created_topics: _CreatedTopics,
    context: Context,
) -> Generator[int, None, _NewTopic | Refusal]:
    refusal = _refuse_name(state, topic.name, created_topics.names) or _refuse_configs(
        state, topic, context
    )
    if refusal is not None:
        return refusal
    placement = yield from _placement(state, topic, context)
    if isinstance(placement, Refusal):
        return placement
    topic_id = context.new_id()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(
            resource_type=TOPIC, resource_name=topic.name, name=config.name, value=config.value
        )
        for config in topic.configs
    ]
    new = yield from new_partitions(state, topic_id, 0, placement, manual=bool(topic.assignments))
    if isinstance(new, Refusal):
        return new
    refusal = context.refusal_of_mutations(len(new))
    if refusal is not None:
        return refusal
    result = topics_api.CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=len(placement),
        replication_factor=len(placement[0]),
        configs=created_topics.configs(state, topic, context),
    )
    return _NewTopic([*records, *new], result)


def _refuse_name(state: ControllerState, name: str, created: dict[str, str]) -> Refusal | None:
    why = invalid_name(name)
    if why is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if name == METADATA_TOPIC:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if name in state.topic_ids:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    alike = [*state.colliding.get(collision_name(name), ())]
    alike += [created[collision_name(name)]] if collision_name(name) in created else []
    if alike:
        why = f"Topic '{name}' collides with existing topic: {alike[0]}"
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    return None


def invalid_name(name: str) -> str | None:
    """The error in a topic name, in Kafka's words."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            "Topic name is invalid: the length of "
            f"'{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    if not _NAME_LETTERS.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def _refuse_configs(
    state: ControllerState, topic: topics_api.CreatableTopic, context: Context
) -> Refusal | None:
    unset = [config.name for config in topic.configs if config.value is None]
    if unset:
        why = f"Null value not supported for topic configs: {','.join(unset)}"
        return Refusal(ErrorCode.INVALID_CONFIG, why)
    values = {config.name: config.value or "" for config in topic.configs}
    return check_configs(state, (TOPIC, topic.name), values, context)


# Placement -------------------------------------------------------------------------------------


def _placement(
    state: ControllerState, topic: topics_api.CreatableTopic, context: Context
) -> Generator[int, None, Placement | Refusal]:
    """Place the replicas as the request assigns them, or else automatically."""
    place = _place_as_assigned if topic.assignments else _place_automatically
    return (yield from place(state, topic, context))


def _place_automatically(
    state: ControllerState, topic: topics_api.CreatableTopic, context: Context
) -> Generator[int, None, Placement | Refusal]:
    replicas, partitions = topic.replication_factor, topic.num_partitions
    if replicas < DEFAULT or replicas == 0:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    if partitions < DEFAULT or partitions == 0:
        why = "Number of partitions was set to an invalid non-positive value."
        return Refusal(ErrorCode.INVALID_PARTITIONS, why)
    if partitions == DEFAULT:
        partitions = context.config.default_partitions
    if replicas == DEFAULT:
        replicas = context.config.default_replication_factor
    placed = yield from place_in_steps(state.brokers.values(), partitions, replicas, context.rng)
    if isinstance(placed, Refusal):
        why = f"Unable to replicate the partition {replicas} time(s): {placed.message}"
        return Refusal(placed.code, why)
    return placed


def _place_as_assigned(
    state: ControllerState,
    topic: topics_api.CreatableTopic,
    context: Context,  # noqa: ARG001 - called as `_place_automatically` is
) -> Generator[int, None, Placement | Refusal]:
    """A manual assignment: partitions 0 to n with equal numbers of replicas."""
    for given, what in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if given != DEFAULT:
            why = f"A manual partition assignment was specified, but {what} was not set to -1."
            return Refusal(ErrorCode.INVALID_REQUEST, why)
    by_index: dict[int, tuple[int, ...]] = {}
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, tuple(assignment.broker_ids)
        if index in by_index:
            why = f"Found multiple manual partition assignments for partition {index}"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        expected = len(next(iter(by_index.values()))) if by_index else None
        refusal = refuse_assignment(state, replicas, expected)
        if refusal is not None:
            return refusal
        by_index[index] = replicas
        yield ASSIGNMENT_COST
    if sorted(by_index) != list(range(len(by_index))):
        why = "partitions should be a consecutive 0-based integer sequence"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return [by_index[index] for index in range(len(by_index))]


def refuse_assignment(
    state: ControllerState, replicas: Sequence[int], expected: int | None
) -> Refusal | None:
    """The error in manually assigned replicas; other partitions have `expected` replicas each."""
    why = "The manual partition assignment includes "
    previous = None
    if not replicas:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{why}an empty replica list.")
    for broker in sorted(replicas):
        if broker not in state.brokers:
            why += f"broker {broker}, but no such broker is registered."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        if broker == previous:
            why += f"the broker {broker} more than once."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        previous = broker
    if expected is not None and len(replicas) != expected:
        why += (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {expected} replica(s)."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return None


def new_partitions(
    state: ControllerState, topic_id: Uuid, first: int, placement: Placement, *, manual: bool
) -> Generator[int, None, list[PartitionRecord] | Refusal]:
    """The records of new partitions: live replicas are the ISR, the first of them is the leader."""
    records = []
    for index, replicas in enumerate(placement, first):
        isr = tuple(filter(state.active, replicas))
        if not isr:
            return _refuse_without_isr(index, len(replicas), manual=manual)
        epoch = 0
        removed = state.removed.get((topic_id, index))
        if removed is not None:
            # The epoch distinguishes it from a former partition of the same number (V11).
            epoch = removed.leader_epoch + 1
        directories = tuple(default_directory(state, broker) for broker in replicas)
        writable = [
            broker
            for broker, directory in zip(replicas, directories, strict=True)
            if broker in isr and state.brokers[broker].writable(directory)
        ]
        partition = PartitionImage(
            topic_id=topic_id,
            index=index,
            replicas=replicas,
            isr=isr,
            leader=(writable or isr)[0],
            leader_epoch=epoch,
            partition_epoch=0,
            directories=directories,
            first_leader_epoch=epoch,
        )
        records.append(partition_record(partition))
        yield PARTITION_COST
    return records


def _refuse_without_isr(index: int, replicas: int, *, manual: bool) -> Refusal:
    if manual:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown.",
        )
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replicas} time(s): All brokers are currently "
        "fenced or in controlled shutdown.",
    )


# Deleting topics ---------------------------------------------------------------------------------


def decide_delete_topics(
    state: ControllerState, request: deletion_api.DeleteTopicsRequest, context: Context
) -> DecisionInSteps:
    """DeleteTopics by name or id; duplicates are refused (V4)."""
    named_topics = []
    for name, topic_id in chain(
        ((topic.name, topic.topic_id) for topic in request.topics),
        ((name, NULL_UUID) for name in request.topic_names),
    ):
        named_topics.append((name, topic_id, _find_topic(state, name, topic_id)))
        yield DELETION_COST
    counts = yield from count_names(
        topic.id for _, _, topic in named_topics if not isinstance(topic, Refusal)
    )
    records: list[Message] = []
    results = []
    for name, topic_id, topic in drained(named_topics):
        outcome: TopicImage | Refusal = topic
        if not context.config.delete_topics:
            outcome = Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        elif not isinstance(topic, Refusal) and counts[topic.id] > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "The same topic is named twice.")
        elif not isinstance(topic, Refusal):
            outcome = context.refusal_of_mutations(topic.partition_count) or topic
        if isinstance(outcome, Refusal):
            result = deletion_api.DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=outcome.code,
                error_message=outcome.message,
            )
        else:
            records.append(RemoveTopicRecord(topic_id=outcome.id))
            result = deletion_api.DeletableTopicResult(
                name=outcome.name, topic_id=outcome.id, error_code=ErrorCode.NONE
            )
        results.append(result)
        yield DELETION_COST
    return Decision(records, deletion_api.DeleteTopicsResponse(responses=results))


def _find_topic(state: ControllerState, name: str | None, topic_id: Uuid) -> TopicImage | Refusal:
    if name is not None and topic_id != NULL_UUID:
        return Refusal(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if name is None and topic_id == NULL_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is None:
        by_id = state.topics.get(topic_id)
        if by_id is not None:
            return by_id
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    by_name = state.topic_named(name)
    return UNKNOWN_TOPIC if by_name is None else by_name


UNKNOWN_TOPIC = Refusal(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)

"""CreatePartitions, and kraftlog's RemovePartitions, for the last partitions of a topic (V11)."""

from __future__ import annotations

from kraftlog.controller.decision import (
    RECORDS_IN_BATCH,
    TOO_LARGE,
    Decision,
    Refusal,
    count_names,
)
from kraftlog.controller.placement import place_in_steps
from kraftlog.controller.topics import UNKNOWN_TOPIC, new_partitions, refuse_assignment
from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import is_internal
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import create_partitions as partitions_api
from kraftlog.wire.messages import remove_partitions as removal_api
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import TypeVar

    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.controller.topics import Placement
    from kraftlog.metadata.values import TopicImage
    from kraftlog.wire.schema import Message

    T = TypeVar("T", partitions_api.CreatePartitionsTopic, removal_api.RemovePartitionsTopic)
    R = TypeVar("R")

#: Costs of steps in microseconds; the cost of a topic is without its partitions.
TOPIC_COST, ASSIGNMENT_COST, REMOVAL_COST = 10, 2, 2
DUPLICATE = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


# More partitions ---------------------------------------------------------------------------------


def decide_create_partitions(
    state: ControllerState, request: partitions_api.CreatePartitionsRequest, context: Context
) -> DecisionInSteps:
    """Add partitions to topics (V11)."""
    records, results = yield from _topic_by_topic(
        request.topics,
        lambda topic: _add_partitions(state, topic, context),
        partitions_api.CreatePartitionsTopicResult,
    )
    response = partitions_api.CreatePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


def _add_partitions(
    state: ControllerState, requested: partitions_api.CreatePartitionsTopic, context: Context
) -> Generator[int, None, Sequence[Message] | Refusal]:
    topic = state.topic_named(requested.name)
    if topic is None:
        return UNKNOWN_TOPIC
    current = topic.partition_count
    added = requested.count - current
    if added == 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if added < 0:
        why = (
            f"The topic {topic.name} currently has {current} partition(s); {requested.count} "
            "would not be an increase."
        )
        return Refusal(ErrorCode.INVALID_PARTITIONS, why)
    if added > RECORDS_IN_BATCH:
        return TOO_LARGE
    placement = yield from _place_new_replicas(state, topic, requested, context)
    if isinstance(placement, Refusal):
        return placement
    refusal = context.refusal_of_mutations(added)
    if refusal is not None:
        return refusal
    manual = requested.assignments is not None
    return (yield from new_partitions(state, topic.id, current, placement, manual=manual))


def _place_new_replicas(
    state: ControllerState,
    topic: TopicImage,
    requested: partitions_api.CreatePartitionsTopic,
    context: Context,
) -> Generator[int, None, Placement | Refusal]:
    added = requested.count - topic.partition_count
    replicas = len(state.partitions[topic.id, 0].replicas)
    if requested.assignments is None:
        return (yield from place_in_steps(state.brokers.values(), added, replicas, context.rng))
    if len(requested.assignments) != added:
        why = (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(requested.assignments)} assignment(s) were specified."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    placement = [tuple(assignment.broker_ids) for assignment in requested.assignments]
    for assigned in placement:
        refusal = refuse_assignment(state, assigned, replicas)
        if refusal is not None:
            return refusal
        yield ASSIGNMENT_COST
    return placement


# Fewer partitions --------------------------------------------------------------------------------


def decide_remove_partitions(
    state: ControllerState,
    request: removal_api.RemovePartitionsRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    """Remove the last partitions of a topic, never all: a gap would break clients (V11)."""
    records, results = yield from _topic_by_topic(
        request.topics,
        lambda topic: _remove_partitions(state, topic),
        removal_api.RemovePartitionsTopicResult,
    )
    response = removal_api.RemovePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


def _remove_partitions(
    state: ControllerState, requested: removal_api.RemovePartitionsTopic
) -> Generator[int, None, Sequence[Message] | Refusal]:
    topic = state.topic_named(requested.name)
    if topic is None:
        return UNKNOWN_TOPIC
    if is_internal(topic.name):
        why = f"{topic.name} is an internal topic, whose keys depend on its number of partitions."
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    indexes = sorted(requested.partitions)
    left = topic.partition_count - len(indexes)
    if not indexes or indexes != list(range(left, topic.partition_count)) or left < 1:
        why = (
            f"Only the last partitions of {topic.name} can be removed, and not all of its "
            f"{topic.partition_count}: a gap in the numbers would break its clients."
        )
        return Refusal(ErrorCode.INVALID_PARTITIONS, why)
    # The lowest index comes first: replaying it sets the remaining count, so that no topic is ever
    # seen with a missing partition.
    records = []
    for index in indexes:
        change = PartitionChangeRecord(partition_id=index, topic_id=topic.id, removed=True)
        records.append(change)
        yield REMOVAL_COST
    return records


# Both requests -----------------------------------------------------------------------------------


def _topic_by_topic(
    topics: Sequence[T],
    decide: Callable[[T], Generator[int, None, Sequence[Message] | Refusal]],
    result_type: Callable[..., R],
) -> Generator[int, None, tuple[list[Message], list[R]]]:
    """The records, and the result of each topic; topics succeed or fail independently."""
    counts = yield from count_names(topic.name for topic in topics)
    records: list[Message] = []
    results = []
    for topic in topics:
        count = counts.pop(topic.name, 0)
        if not count:
            continue  # its result is at its first occurrence
        outcome: Sequence[Message] | Refusal = DUPLICATE
        if count == 1:
            outcome = yield from decide(topic)
        yield TOPIC_COST
        if not isinstance(outcome, Refusal) and len(records) + len(outcome) > RECORDS_IN_BATCH:
            outcome = TOO_LARGE
        if isinstance(outcome, Refusal):
            results.append(
                result_type(name=topic.name, error_code=outcome.code, error_message=outcome.message)
            )
        else:
            records += outcome
            results.append(
                result_type(name=topic.name, error_code=ErrorCode.NONE, error_message=None)
            )
    return records, results

"""AlterPartitionReassignments and ListPartitionReassignments.

At first the replicas include both old and new ones. When the new ones are in sync, the old ones are
removed: `partition_change` does so with the AlterPartition that completes the reassignment. The
partition record has the added and removed replicas, so a reassignment survives controller changes
(V10).
"""

from __future__ import annotations

from kraftlog.controller.decision import (
    RECORDS_IN_BATCH,
    TOO_LARGE,
    Decision,
    Refusal,
    count_names,
)
from kraftlog.controller.partition_change import PartitionTarget, partition_change, without
from kraftlog.controller.topics import refuse_assignment
from kraftlog.errors import ErrorCode
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kraftlog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from kraftlog.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
    )
    from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
    from kraftlog.wire.schema import Message

#: Cost of a partition, in microseconds.
PARTITION_COST = 20


def decide_alter_reassignments(
    state: ControllerState,
    request: AlterPartitionReassignmentsRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    may_change_factor = request.allow_replication_factor_change
    counts = yield from count_names(
        (topic.name, p.partition_index) for topic in request.topics for p in topic.partitions
    )
    records: list[Message] = []
    topics = []
    for topic in request.topics:
        results = []
        for requested in topic.partitions:
            outcome = (
                Refusal(ErrorCode.INVALID_REQUEST, "The same partition is named twice.")
                if counts[topic.name, requested.partition_index] > 1
                else _alter(state, topic.name, requested, may_change_factor=may_change_factor)
            )
            refused = outcome if isinstance(outcome, Refusal) else None
            if outcome is not None and not isinstance(outcome, Refusal):
                records.append(outcome)
            results.append(
                ReassignablePartitionResponse(
                    partition_index=requested.partition_index,
                    error_code=refused.code if refused else ErrorCode.NONE,
                    error_message=refused.message if refused else None,
                )
            )
            yield PARTITION_COST
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    if len(records) > RECORDS_IN_BATCH:
        return Decision([], _response(TOO_LARGE.code, TOO_LARGE.message, (), may_change_factor))
    return Decision(records, _response(ErrorCode.NONE, None, topics, may_change_factor))


def _response(
    code: int,
    message: str | None,
    topics: Sequence[ReassignableTopicResponse],
    may_change_factor: bool,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=topics,
        allow_replication_factor_change=may_change_factor,
    )


def _alter(
    state: ControllerState,
    name: str,
    requested: ReassignablePartition,
    *,
    may_change_factor: bool,
) -> PartitionChangeRecord | Refusal | None:
    topic = state.topic_named(name)
    if topic is None:
        why = f"Unable to find a topic named {name}."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    partition = state.partitions.get((topic.id, requested.partition_index))
    if partition is None:
        why = f"Unable to find partition {name}:{requested.partition_index}."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    if requested.replicas is None:
        return _cancel(state, partition)
    target = tuple(requested.replicas)
    refusal = refuse_assignment(state, target, None)
    if refusal is not None:
        return refusal
    factor = len(partition.replicas) - len(partition.adding)
    if not may_change_factor and len(target) != factor:
        why = (
            f"The replication factor is changed from {factor} to {len(target)}, "
            "which the request does not allow."
        )
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    return _reassign(state, partition, target)


def _reassign(
    state: ControllerState, partition: PartitionImage, target: tuple[int, ...]
) -> PartitionChangeRecord | Refusal | None:
    """Start a reassignment, or replace one, dropping the replicas that it was adding."""
    old = without(partition.replicas, partition.adding)
    isr = tuple(broker for broker in partition.isr if broker in (*old, *target))
    if not isr:
        # Only the replicas being added have the data, so they count as old ones: they stay until
        # the replicas of the new target are in sync.
        old, isr = partition.replicas, partition.isr
    removing = tuple(sorted(set(old) - set(target)))
    adding = tuple(sorted(set(target) - set(old)))
    wanted = PartitionTarget(isr=isr, replicas=target + removing, adding=adding, removing=removing)
    return partition_change(state, partition, wanted)


def _cancel(
    state: ControllerState, partition: PartitionImage
) -> PartitionChangeRecord | Refusal | None:
    """Cancel a reassignment and restore the former replicas."""
    if not partition.reassigning:
        why = "No partition reassignment is in progress."
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, why)
    replicas = without(partition.replicas, partition.adding)
    isr = without(partition.isr, partition.adding)
    may_lose = state.allows_unclean_election(partition) and any(map(state.active, replicas))
    if not isr and not may_lose:
        # Only new replicas are in sync, so canceling loses what the old ones lack.
        name = state.topics[partition.topic_id].name
        why = (
            f"Unable to revert partition assignment for {name}:{partition.index} because it "
            "would require an unclean leader election."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    wanted = PartitionTarget(isr=isr, replicas=replicas, adding=(), removing=())
    return partition_change(state, partition, wanted)


# Listing -----------------------------------------------------------------------------------------


def decide_list_reassignments(
    state: ControllerState,
    request: ListPartitionReassignmentsRequest,
    context: Context,
) -> Decision:
    """Ongoing reassignments, of all topics or of the given partitions, and that of the voters."""
    keys: Iterable[PartitionKey]
    if request.topics is None:
        keys = sorted(state.index.reassigning)
    else:
        keys = [
            (state.topic_ids[topic.name], index)
            for topic in request.topics
            if topic.name in state.topic_ids
            for index in topic.partition_indexes
        ]
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for key in keys:
        if key in state.index.reassigning:
            ongoing = by_topic.setdefault(state.topics[key[0]].name, [])
            ongoing.append(_ongoing(state.partitions[key]))
    voters = _ongoing_of_voters(context.voters())
    if voters is not None and _includes_voters(request):
        by_topic[METADATA_TOPIC] = [voters]
    topics = [OngoingTopicReassignment(name=n, partitions=p) for n, p in by_topic.items()]
    response = ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=topics)
    return Decision([], response)


def _ongoing(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
    )


def _includes_voters(request: ListPartitionReassignmentsRequest) -> bool:
    """Whether the request includes the metadata partition, whose replicas are the voters (R2)."""
    return request.topics is None or any(
        topic.name == METADATA_TOPIC and 0 in topic.partition_indexes for topic in request.topics
    )


def _ongoing_of_voters(voters: VoterSet) -> OngoingPartitionReassignment | None:
    if voters.targets is None:
        return None
    current, targets = set(voters.ids), set(voters.targets)
    return OngoingPartitionReassignment(
        partition_index=0,
        replicas=tuple(sorted(current | targets)),
        adding_replicas=tuple(sorted(targets - current)),
        removing_replicas=tuple(sorted(current - targets)),
    )

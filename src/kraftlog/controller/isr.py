"""AlterPartition: a leader changes the ISR; epochs decide whether it may (V1, V9)."""

from __future__ import annotations

from kraftlog.controller.decision import Decision
from kraftlog.controller.partition_change import PartitionTarget, partition_change
from kraftlog.errors import ErrorCode
from kraftlog.metadata.replay import SAME_LEADER, changed_partition
from kraftlog.metadata.values import RECOVERED, RECOVERING
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.alter_partition import (
    AlterPartitionResponse,
    PartitionResult,
    TopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.alter_partition import AlterPartitionRequest, PartitionData
    from kraftlog.wire.schema import Message

#: The broker epoch of a replica is unknown.
ANY_EPOCH = -1
#: Cost of a partition, in microseconds.
PARTITION_COST = 15


def decide_alter_partition(
    state: ControllerState,
    request: AlterPartitionRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    broker = state.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        refused = AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=())
        return Decision([], refused)
    records: list[Message] = []
    named: set[tuple[Uuid, int]] = set()
    topics = []
    for topic in request.topics:
        results = []
        for requested in topic.partitions:
            key = topic.topic_id, requested.partition_index
            if key in named:  # two changes of one request would not see each other
                results.append(_refused(requested.partition_index, ErrorCode.INVALID_REQUEST))
            else:
                named.add(key)
                results.append(_alter_one(state, request.broker_id, key, requested, records))
            yield PARTITION_COST
        topics.append(TopicResult(topic_id=topic.topic_id, partitions=results))
    return Decision(records, AlterPartitionResponse(error_code=ErrorCode.NONE, topics=topics))


def _alter_one(
    state: ControllerState,
    requester_id: int,
    key: PartitionKey,
    requested: PartitionData,
    records: list[Message],
) -> PartitionResult:
    """The response for one partition; its record, if any, is appended to `records`."""
    topic_id, index = key
    if topic_id not in state.topics:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = state.partitions.get(key)
    if partition is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = _request_error(requester_id, partition, requested)
    if code != ErrorCode.NONE:
        return _refused(index, code)
    replicas = _requested_isr(requested)
    isr = tuple(broker for broker, _ in replicas)
    code = _isr_error(requester_id, partition, requested.leader_recovery_state, isr)
    if code != ErrorCode.NONE:
        return _refused(index, code)
    if not all(_is_eligible(state, partition, broker, epoch) for broker, epoch in replicas):
        return _refused(index, ErrorCode.INELIGIBLE_REPLICA)
    wanted = PartitionTarget(isr=isr, recovery=requested.leader_recovery_state)
    record = partition_change(state, partition, wanted)
    if record is not None:
        records.append(record)
        if record.leader not in (SAME_LEADER, requester_id):
            # The new ISR completes a reassignment that removes the leader.
            return _refused(index, ErrorCode.NEW_LEADER_ELECTED)
        partition = changed_partition(partition, record)
    return PartitionResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.recovery,
        partition_epoch=partition.partition_epoch,
    )


def _requested_isr(requested: PartitionData) -> Sequence[tuple[int, int]]:
    """The requested ISR with broker epochs; before version 3 without epochs."""
    if not requested.new_isr_with_epochs:
        return [(broker, ANY_EPOCH) for broker in requested.new_isr]
    return [(each.broker_id, each.broker_epoch) for each in requested.new_isr_with_epochs]


def _request_error(requester_id: int, partition: PartitionImage, requested: PartitionData) -> int:
    """The error code of a wrong epoch, requester or number of replicas, or NONE."""
    epochs = (requested.leader_epoch, requested.partition_epoch)
    known = (partition.leader_epoch, partition.partition_epoch)
    if epochs[0] > known[0] or epochs[1] > known[1]:
        # The leader has newer metadata, so another node is the active controller.
        return ErrorCode.NOT_CONTROLLER
    if epochs[0] < known[0]:
        return ErrorCode.FENCED_LEADER_EPOCH
    if requester_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if epochs[1] < known[1]:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(requested.new_isr) + len(requested.new_isr_with_epochs) > len(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _isr_error(
    requester_id: int, partition: PartitionImage, recovery: int, isr: tuple[int, ...]
) -> int:
    """The error code of a requested ISR or recovery state, or NONE."""
    if (
        len(set(isr)) != len(isr)
        or not set(isr) <= set(partition.replicas)
        or requester_id not in isr
    ):
        return ErrorCode.INVALID_REQUEST
    if recovery not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if recovery == RECOVERING and (len(isr) > 1 or partition.recovery == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _is_eligible(
    state: ControllerState, partition: PartitionImage, broker_id: int, epoch: int
) -> bool:
    """Whether a replica may be in the ISR.

    Not if its broker is fenced, shutting down or restarted, nor if its directory is offline: the
    leader may not know that yet.
    """
    broker = state.brokers.get(broker_id)
    if not (broker is not None and broker.active and epoch in (ANY_EPOCH, broker.epoch)):
        return False
    return broker.online(partition.directory(broker_id))


def _refused(index: int, code: int) -> PartitionResult:
    return PartitionResult(
        partition_index=index,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=(),
        partition_epoch=0,
    )

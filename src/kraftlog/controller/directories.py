"""AssignReplicasToDirs: records the directories of a broker's replicas."""

from __future__ import annotations

from kraftlog.controller.decision import Decision
from kraftlog.controller.partition_change import PartitionTarget, partition_change, without
from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import DirectoryId
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)

if TYPE_CHECKING:
    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.metadata.values import BrokerImage
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
    from kraftlog.wire.schema import Message

#: Cost of a replica, in microseconds.
REPLICA_COST = 15


def decide_assign_replicas(
    state: ControllerState,
    request: AssignReplicasToDirsRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    broker = state.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        code = ErrorCode.STALE_BROKER_EPOCH
        return Decision([], AssignReplicasToDirsResponse(error_code=code, directories=()))
    records: list[Message] = []
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            results = []
            for each in topic.partitions:
                index = each.partition_index
                code = _assign(state, broker, directory.id, topic.topic_id, index, records)
                results.append(PartitionResult(partition_index=index, error_code=code))
                yield REPLICA_COST
            topics.append(TopicResult(topic_id=topic.topic_id, partitions=results))
        directories.append(DirectoryResult(id=directory.id, topics=topics))
    response = AssignReplicasToDirsResponse(error_code=ErrorCode.NONE, directories=directories)
    return Decision(records, response)


def _assign(
    state: ControllerState,
    broker: BrokerImage,
    directory: Uuid,
    topic_id: Uuid,
    index: int,
    records: list[Message],
) -> int:
    """Record the directory of a replica; return an error code.

    A replica in an offline directory leaves the ISR (V18); one that has lost its log is no longer
    eligible either (V19).
    """
    if topic_id not in state.topics:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = state.partitions.get((topic_id, index))
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    isr, online = partition.isr, broker.online(directory)
    if not online:
        isr = without(isr, (broker.id,))
    lost = frozenset((broker.id,)) if directory == DirectoryId.LOST else frozenset[int]()

    def alive(other: int) -> bool:
        return state.active(other) and (online or other != broker.id)

    wanted = PartitionTarget(isr=isr, directories=((broker.id, directory),), unclean=lost)
    change = partition_change(state, partition, wanted, alive)
    if change is not None:
        records.append(change)
    return ErrorCode.NONE

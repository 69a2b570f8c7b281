"""Reassigns partitions to other brokers, cancels and lists reassignments, elects leaders."""

from __future__ import annotations

from kraftlog.client.cluster import CONTROLLER
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.model import PartitionName
    from kraftlog.errors import RefusedError


#: The election types of ElectLeaders.
PREFERRED, UNCLEAN = 0, 1


class Reassignment(Value):
    """An ongoing reassignment; `replicas` includes those to be added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.removing)


def alter(
    cluster: Cluster,
    targets: Mapping[PartitionName, Sequence[int] | None],
    *,
    may_change_factor: bool = True,
) -> dict[PartitionName, RefusedError]:
    """Start reassignments, cancel those with target None; return the refused ones."""
    refused: dict[PartitionName, RefusedError] = {}
    by_topic: dict[str, list[alter_partition_reassignments.ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        by_topic.setdefault(topic, []).append(
            alter_partition_reassignments.ReassignablePartition(
                partition_index=index, replicas=None if replicas is None else tuple(replicas)
            )
        )

    def check(
        response: alter_partition_reassignments.AlterPartitionReassignmentsResponse,
        context: ErrorContext,
    ) -> None:
        context.check(response.error_code, message=response.error_message)
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code:
                    name = topic.name, partition.partition_index
                    subject = f"{topic.name}-{partition.partition_index}"
                    refused[name] = context.error(
                        partition.error_code, subject, partition.error_message
                    )

    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.timeout_s * 1000),
        allow_replication_factor_change=may_change_factor,
        topics=[
            alter_partition_reassignments.ReassignableTopic(name=topic, partitions=parts)
            for topic, parts in by_topic.items()
        ],
    )
    cluster.call(
        request,
        alter_partition_reassignments.AlterPartitionReassignmentsResponse,
        broker=CONTROLLER,
        check=check,
    )
    cluster.drop_cache()
    return refused


def ongoing(cluster: Cluster) -> dict[PartitionName, Reassignment]:
    """All ongoing reassignments, as the active controller has them."""

    def check(
        response: list_partition_reassignments.ListPartitionReassignmentsResponse,
        context: ErrorContext,
    ) -> None:
        context.check(response.error_code, message=response.error_message)

    request = list_partition_reassignments.ListPartitionReassignmentsRequest(
        timeout_ms=int(cluster.timeout_s * 1000), topics=None
    )
    response = cluster.call(
        request,
        list_partition_reassignments.ListPartitionReassignmentsResponse,
        broker=CONTROLLER,
        check=check,
    )
    return {
        (topic.name, each.partition_index): Reassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def elect(
    cluster: Cluster, partitions: Iterable[PartitionName], election_type: int = PREFERRED
) -> dict[PartitionName, RefusedError]:
    """Elect a leader of each partition, by default the preferred replica; return the failures."""
    failed: dict[PartitionName, RefusedError] = {}
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)

    def check(response: elect_leaders.ElectLeadersResponse, context: ErrorContext) -> None:
        context.check(response.error_code)
        for topic in response.replica_election_results:
            for partition in topic.partition_result:
                if partition.error_code not in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}:
                    name = topic.topic, partition.partition_id
                    subject = f"{topic.topic}-{partition.partition_id}"
                    failed[name] = context.error(
                        partition.error_code, subject, partition.error_message
                    )

    request = elect_leaders.ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=[
            elect_leaders.TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic.items()
        ],
        timeout_ms=int(cluster.timeout_s * 1000),
    )
    cluster.call(request, elect_leaders.ElectLeadersResponse, broker=CONTROLLER, check=check)
    cluster.drop_cache()
    return failed

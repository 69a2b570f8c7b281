"""Reassigns partitions to other brokers, cancels reassignments and lists them."""

from __future__ import annotations

from kraftlog.client.cluster import CONTROLLER
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages import alter_partition_reassignments, list_partition_reassignments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.model import PartitionName
    from kraftlog.errors import RefusedError


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
            for each in topic.partitions:
                if each.error_code:
                    name = topic.name, each.partition_index
                    subject = f"{topic.name}-{each.partition_index}"
                    refused[name] = context.error(each.error_code, subject, each.error_message)

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

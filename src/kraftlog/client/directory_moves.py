"""Moves replicas between the log directories of their brokers."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import alter_replica_log_dirs as api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.errors import RefusedError

    #: Topic, partition and broker.
    ReplicaName = tuple[str, int, int]


def begin(cluster: Cluster, targets: Mapping[ReplicaName, str]) -> dict[ReplicaName, RefusedError]:
    """Begin to move replicas to these directories; return the refused ones."""
    refused: dict[ReplicaName, RefusedError] = {}
    for broker in sorted({name[2] for name in targets}):
        indexes_by_directory: dict[str, dict[str, list[int]]] = {}
        for (topic, index, replica_broker), path in targets.items():
            if replica_broker == broker:
                indexes_by_directory.setdefault(path, {}).setdefault(topic, []).append(index)
        refused.update(_begin_on(cluster, broker, indexes_by_directory))
    return refused


def _begin_on(
    cluster: Cluster, broker: int, indexes_by_directory: Mapping[str, Mapping[str, list[int]]]
) -> dict[ReplicaName, RefusedError]:
    refused: dict[ReplicaName, RefusedError] = {}

    def check(response: api.AlterReplicaLogDirsResponse, context: ErrorContext) -> None:
        for topic in response.results:
            for partition in topic.partitions:
                if partition.error_code:
                    name = topic.topic_name, partition.partition_index, broker
                    subject = f"{topic.topic_name}-{partition.partition_index}"
                    refused[name] = context.error(partition.error_code, subject)

    request = api.AlterReplicaLogDirsRequest(
        dirs=[
            api.AlterReplicaLogDir(
                path=path,
                topics=[
                    api.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in topics.items()
                ],
            )
            for path, topics in indexes_by_directory.items()
        ]
    )
    cluster.call(request, api.AlterReplicaLogDirsResponse, broker=broker, check=check)
    return refused

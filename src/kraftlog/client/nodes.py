"""Nodes of a cluster: brokers, features, log directories and the metadata quorum."""

from __future__ import annotations

from kraftlog.client.cluster import ANY, BROKERS, CONTROLLER, CONTROLLERS
from kraftlog.client.model import Broker
from kraftlog.client.no_leader import explain_missing_leader
from kraftlog.errors import RAISE_KRAFT_VERSION, ClientError, ConfigError
from kraftlog.types import METADATA_TOPIC, NULL_UUID, uuid_text
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.version import VERSION
from kraftlog.wire.apis import OWN_CLIENT
from kraftlog.wire.messages import (
    add_raft_voter,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    remove_raft_voter,
    unregister_broker,
    update_features,
    update_raft_voter,
)
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kraftlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraftlog.wire.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.deadline import Deadline
    from kraftlog.types import Uuid


class ClusterDescription(Value):
    id: str
    controller_id: int
    #: The controllers, if the bootstrap servers are controllers.
    brokers: tuple[Broker, ...]


class Feature(Value):
    """A feature with its supported range; `level` is 0 if it is not finalized."""

    name: str
    least: int
    most: int
    level: int


class Features(Value):
    features: tuple[Feature, ...]
    epoch: int


class Replica(Value):
    """A replica of the metadata quorum, as described by the leader."""

    id: int
    directory_id: Uuid
    log_end_offset: int
    #: By the leader's clock; None if unknown, or if it has never fetched or caught up (D5).
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    #: Whether it is a target of the unfinished move of the voters.
    is_target: bool = False
    #: Why it lags, and the error code of its last fetch; from leaders of kraftlog only.
    lag_reason: str = ""
    last_error: int = 0


class Quorum(Value):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    #: Listeners of the voters, as far as the response has them: node id to (name, host, port).
    listeners: tuple[tuple[int, tuple[tuple[str, str, int], ...]], ...]
    #: The target voters of a move (None without one), and the nodes that its next step waits for.
    targets: tuple[int, ...] | None = None
    awaited_targets: tuple[int, ...] = ()
    #: While the newest voter change is uncommitted: the voters without it, and its offset. From
    #: leaders of kraftlog only.
    committed_voters: tuple[int, ...] | None = None
    uncommitted_voters_offset: int = -1


def describe(
    cluster: Cluster, *, fenced: bool = False, linearizable: bool = False
) -> ClusterDescription:
    """The cluster id, the controller and the brokers; `fenced` includes fenced ones."""

    def check(response: describe_cluster.DescribeClusterResponse, context: ErrorContext) -> None:
        context.check(response.error_code, message=response.error_message)

    request = describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=CONTROLLERS if cluster.is_controllers else BROKERS,
        include_fenced_brokers=fenced,
        linearizable=linearizable,
    )
    result = cluster.call(request, describe_cluster.DescribeClusterResponse, check=check)
    brokers = [
        Broker(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
        for each in sorted(result.brokers, key=lambda broker: broker.broker_id)
    ]
    return ClusterDescription(result.cluster_id, result.controller_id, tuple(brokers))


def unregister(cluster: Cluster, broker: int) -> None:
    def check(response: unregister_broker.UnregisterBrokerResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"broker {broker}", response.error_message)

    cluster.call(
        unregister_broker.UnregisterBrokerRequest(broker_id=broker),
        unregister_broker.UnregisterBrokerResponse,
        broker=CONTROLLER,
        check=check,
    )


def unregister_controller(cluster: Cluster, controller: int) -> None:
    def check(response: UnregisterControllerResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"controller {controller}", response.error_message)

    cluster.call(
        UnregisterControllerRequest(controller_id=controller),
        UnregisterControllerResponse,
        broker=CONTROLLER,
        check=check,
    )


def api_versions(
    cluster: Cluster, broker: int = ANY, deadline: Deadline | None = None
) -> ApiVersionsResponse:
    """The API versions of a broker, and the features of the cluster."""
    return cluster.call(
        ApiVersionsRequest(client_software_name=OWN_CLIENT, client_software_version=VERSION),
        ApiVersionsResponse,
        broker=broker,
        deadline=deadline,
        check=lambda response, context: context.check(response.error_code),
    )


def features(cluster: Cluster, broker: int = ANY, deadline: Deadline | None = None) -> Features:
    result = api_versions(cluster, broker, deadline)
    levels = {each.name: each.max_version_level for each in result.finalized_features}
    supported = [
        Feature(each.name, each.min_version, each.max_version, levels.get(each.name, 0))
        for each in sorted(result.supported_features, key=lambda feature: feature.name)
    ]
    return Features(tuple(supported), result.finalized_features_epoch)


def update_levels(
    cluster: Cluster, levels: Mapping[str, int], *, upgrade_type: int, validate_only: bool
) -> None:
    """Update feature levels; type 1: upgrade, 2: safe downgrade, 3: unsafe downgrade."""

    def check(response: update_features.UpdateFeaturesResponse, context: ErrorContext) -> None:
        context.check(response.error_code, message=response.error_message)
        for result in response.results:
            context.check(result.error_code, result.feature, result.error_message)

    request = update_features.UpdateFeaturesRequest(
        timeout_ms=int(cluster.timeout_s * 1000),
        feature_updates=[
            update_features.FeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=upgrade_type
            )
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    cluster.call(request, update_features.UpdateFeaturesResponse, broker=CONTROLLER, check=check)


def log_dirs(
    cluster: Cluster, brokers: Sequence[int], topics: Mapping[str, Sequence[int]] | None = None
) -> dict[int, tuple[describe_log_dirs.DescribeLogDirsResult, ...]]:
    """The log directories of each broker, with the replicas of these partitions, or with all."""
    requested = None
    if topics is not None:
        requested = [
            describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=tuple(indexes))
            for name, indexes in topics.items()
        ]

    def check(response: describe_log_dirs.DescribeLogDirsResponse, context: ErrorContext) -> None:
        context.check(response.error_code)

    return {
        broker: tuple(
            cluster.call(
                describe_log_dirs.DescribeLogDirsRequest(topics=requested),
                describe_log_dirs.DescribeLogDirsResponse,
                broker=broker,
                check=check,
            ).results
        )
        for broker in brokers
    }


def quorum(cluster: Cluster, deadline: Deadline | None = None) -> Quorum:
    """The metadata quorum, as described by its leader."""

    def check(response: describe_quorum.DescribeQuorumResponse, context: ErrorContext) -> None:
        context.check(response.error_code, message=response.error_message)
        for topic in response.topics:
            for partition in topic.partitions:
                context.check(partition.error_code, message=partition.error_message)

    topic = describe_quorum.TopicData(
        topic_name=METADATA_TOPIC, partitions=[describe_quorum.PartitionData(partition_index=0)]
    )
    try:
        result = cluster.call(
            describe_quorum.DescribeQuorumRequest(topics=[topic]),
            describe_quorum.DescribeQuorumResponse,
            broker=CONTROLLER if cluster.is_controllers else ANY,
            deadline=deadline,
            check=check,
        )
    except ClientError as error:
        explained = explain_missing_leader(cluster, error)
        if explained is error:
            raise
        raise explained from error
    partition = result.topics[0].partitions[0]
    listeners = tuple(
        (node.node_id, tuple((each.name, each.host, each.port) for each in node.listeners))
        for node in result.nodes
    )
    return Quorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        tuple(map(_replica, partition.current_voters)),
        tuple(map(_replica, partition.observers)),
        listeners,
        None if partition.target_voters is None else tuple(partition.target_voters),
        tuple(partition.awaited_targets),
        None if partition.committed_voters is None else tuple(partition.committed_voters),
        partition.uncommitted_voters_offset,
    )


def _replica(result: describe_quorum.ReplicaState) -> Replica:
    return Replica(
        result.replica_id,
        result.replica_directory_id,
        result.log_end_offset,
        _known(result.last_fetch_timestamp),
        _known(result.last_caught_up_timestamp),
        result.is_target,
        result.lag_reason,
        result.last_error,
    )


def _known(timestamp_ms: int) -> int | None:
    return timestamp_ms if timestamp_ms >= 0 else None


def add_voter(
    cluster: Cluster,
    voter: int,
    directory: Uuid,
    listeners: Sequence[tuple[str, str, int]],
    deadline: Deadline | None = None,
) -> None:
    """Add to the voters a controller that has caught up; listeners are (name, host, port)."""

    def check(response: add_raft_voter.AddRaftVoterResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"controller {voter}", response.error_message)

    limit = deadline or cluster.deadline()
    request = add_raft_voter.AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=int(limit.left_s() * 1000),
        voter_id=voter,
        voter_directory_id=directory,
        listeners=[
            add_raft_voter.Listener(name=name, host=host, port=port)
            for name, host, port in listeners
        ],
    )
    cluster.call(
        request,
        add_raft_voter.AddRaftVoterResponse,
        broker=_leader_target(cluster),
        deadline=limit,
        check=check,
    )


def voter_directory(
    cluster: Cluster,
    voter: int,
    directory: Uuid | None = None,
    deadline: Deadline | None = None,
) -> Uuid:
    """The directory id of a voter, which must be `directory` if that is given.

    Raises ConfigError without such a voter, or if its directory id is not recorded.
    """
    described = quorum(cluster, deadline)
    for replica in described.voters:
        if replica.id == voter and directory in {None, replica.directory_id}:
            if replica.directory_id == NULL_UUID:
                raise ConfigError(
                    f"the directory id of voter {voter} is not recorded, as kraft.version is "
                    f"0: {RAISE_KRAFT_VERSION}"
                )
            return replica.directory_id
    voter_text = f"{voter} with directory {uuid_text(directory)}" if directory else f"{voter}"
    ids = ", ".join([str(replica.id) for replica in described.voters])
    raise ConfigError(f"controller {voter_text} is not a voter; the voters are {ids}")


def remove_voter(
    cluster: Cluster, voter: int, directory: Uuid, deadline: Deadline | None = None
) -> None:
    def check(response: remove_raft_voter.RemoveRaftVoterResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"controller {voter}", response.error_message)

    request = remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=None, voter_id=voter, voter_directory_id=directory
    )
    cluster.call(
        request,
        remove_raft_voter.RemoveRaftVoterResponse,
        broker=_leader_target(cluster),
        deadline=deadline,
        check=check,
    )


def update_voter(
    cluster: Cluster,
    voter: int,
    listeners: Sequence[tuple[str, str, int]],
    versions: tuple[int, int],
) -> Uuid:
    """Change listeners and kraft.version range of a voter; return its directory id.

    Only controllers serve this.
    """
    limit = cluster.deadline()
    described = quorum(cluster, limit)
    directory = voter_directory(cluster, voter, None, limit)

    def check(response: update_raft_voter.UpdateRaftVoterResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"controller {voter}")

    request = update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=None,
        current_leader_epoch=described.leader_epoch,
        voter_id=voter,
        voter_directory_id=directory,
        listeners=[
            update_raft_voter.Listener(name=name, host=host, port=port)
            for name, host, port in listeners
        ],
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=versions[0], max_supported_version=versions[1]
        ),
    )
    cluster.call(
        request,
        update_raft_voter.UpdateRaftVoterResponse,
        broker=_leader_target(cluster),
        deadline=limit,
        check=check,
    )
    return directory


def reassign_voters(
    cluster: Cluster, targets: Sequence[int] | None, deadline: Deadline | None = None
) -> None:
    """Set the target voters, to which the quorum then moves one by one; None cancels a move.

    Returns once the targets are committed, not when the quorum has reached them.
    """

    def check(response: AlterPartitionReassignmentsResponse, context: ErrorContext) -> None:
        context.check(response.error_code, message=response.error_message)
        for topic in response.responses:
            for partition in topic.partitions:
                context.check(partition.error_code, "the voters", partition.error_message)

    replicas = None if targets is None else tuple(targets)
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    limit = deadline or cluster.deadline()
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(limit.left_s() * 1000),
        topics=[ReassignableTopic(name=METADATA_TOPIC, partitions=[partition])],
    )
    cluster.call(
        request,
        AlterPartitionReassignmentsResponse,
        broker=_leader_target(cluster),
        deadline=limit,
        check=check,
    )


def _leader_target(cluster: Cluster) -> int:
    """The target of a request to the quorum's leader: brokers forward it, controllers do not."""
    return CONTROLLER if cluster.is_controllers else ANY

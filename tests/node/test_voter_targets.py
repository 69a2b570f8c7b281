"""R2: AlterPartitionReassignments of the metadata partition moves the quorum to other voters."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterHistory
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_adding_voters import three_nodes_with_removed_voter, voters
from tests.node.three_nodes import NODES, ThreeNodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.virtual_host import VirtualHost


def target_topic(targets: Sequence[int] | None, *, partition: int = 0) -> ReassignableTopic:
    part = ReassignablePartition(partition_index=partition, replicas=targets)
    return ReassignableTopic(name=METADATA_TOPIC, partitions=[part])


def ask(
    cluster: ThreeNodes,
    host: VirtualHost,
    *topics: ReassignableTopic,
    listener: int = CONTROLLER,
    may_change_count: bool = True,
) -> Any:
    """Send the request to a node; return the error code of the first partition."""
    name = "CONTROLLER" if listener == CONTROLLER else "PLAINTEXT"
    client = FrameClient(host, listener, name)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000, topics=topics, allow_replication_factor_change=may_change_count
    )
    client.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    cluster.settle(5000)
    [(_, answer)] = client.take()
    assert answer.error_code == 0
    return answer.responses[0].partitions[0].error_code


@pytest.mark.parametrize("listener", [CONTROLLER, BROKER])
def test_r2_an_observer_registers_and_becomes_a_voter_by_its_id(listener: int) -> None:
    """The observer's registration has its endpoints; brokers forward the request to the leader."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    assert removed in leader.node.image.controllers
    receiver = leader
    if listener == BROKER:
        receiver = next(
            each for i, each in cluster.hosts.items() if each is not leader and i != removed
        )
    assert ask(cluster, receiver, target_topic(NODES), listener=listener) == ErrorCode.NONE
    cluster.settle(5000)
    recorded = leader.node.quorum.core.log.voter_set
    assert (recorded.ids, recorded.targets) == (NODES, None)
    assert all(voter.endpoints for voter in recorded.voters)
    cluster.check()


def test_r2_the_number_of_voters_changes_only_if_the_request_allows_it() -> None:
    """Both tools have `--disallow-replication-factor-change`, as for other partitions."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    two = voters(leader)
    code = ask(cluster, leader, target_topic(NODES), may_change_count=False)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert voters(leader) == two
    same_number = [leader.node.config.node_id, removed]
    assert ask(cluster, leader, target_topic(same_number), may_change_count=False) == ErrorCode.NONE


def test_r2_only_the_leader_takes_target_voters() -> None:
    cluster, leader, removed = three_nodes_with_removed_voter()
    follower = next(
        each for i, each in cluster.hosts.items() if each is not leader and i != removed
    )
    assert ask(cluster, follower, target_topic(NODES)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert removed not in voters(leader)


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ([target_topic((1, 1))], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([target_topic(())], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([target_topic(None)], ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([target_topic((1,), partition=1)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            [target_topic((1,)), ReassignableTopic(name="t", partitions=[])],
            ErrorCode.INVALID_REQUEST,
        ),
        ([target_topic((1,)), target_topic((2,))], ErrorCode.INVALID_REQUEST),
    ],
)
def test_r2_impossible_moves_change_nothing(topics: list[ReassignableTopic], error: int) -> None:
    cluster, leader, _ = three_nodes_with_removed_voter()
    before = leader.node.quorum.end
    assert ask(cluster, leader, *topics) == error
    assert leader.node.quorum.end == before


def test_r2_no_move_at_kraft_version_0() -> None:
    cluster = ThreeNodes(Random(1))
    cluster.loss = 0.0
    leader = cluster._leader()
    log = leader.node.quorum.core.log
    unrecorded = Voter(ReplicaKey(3), ())
    log.voters = VoterHistory(log.voter_set.with_voter(unrecorded))
    assert ask(cluster, leader, target_topic((1,))) == ErrorCode.UNSUPPORTED_VERSION


def test_a_voter_registers_no_controller() -> None:
    """The voters record has its endpoints already."""
    host = make_host()
    host.pass_time(60_000)
    host.settle()
    assert host.node.image.controllers == {}

"""R4: a voter is added once it has caught up and reported its endpoint and kraft.version."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.handlers import api_versions
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.node.frame_client import FrameClient
from tests.node.three_nodes import NODES, ThreeNodes
from tests.virtual_host import CLUSTER_ID, directory_id_of, host_of

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost


def ask(cluster: ThreeNodes, host: VirtualHost, api_key: int, request: Message) -> Any:
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    client.send(api_key, 0, request)
    cluster.settle(5000)
    [(_, response)] = client.take()
    return response


def three_nodes_with_removed_voter() -> tuple[ThreeNodes, VirtualHost, int]:
    """Three nodes, one of them removed from the voters; returns all, the leader, the removed id."""
    cluster = ThreeNodes(Random(1))
    cluster.loss = 0.0
    leader = cluster._leader()
    removed = next(i for i in NODES if cluster.hosts[i] is not leader)
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=removed, voter_directory_id=directory_id_of(removed)
    )
    assert ask(cluster, leader, ApiKey.REMOVE_RAFT_VOTER, request).error_code == 0
    cluster.settle(5000)
    return cluster, leader, removed


def add_request(voter_id: int, host: str) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=1000,
        voter_id=voter_id,
        voter_directory_id=directory_id_of(voter_id),
        listeners=[Listener(name="CONTROLLER", host=host, port=9093)],
    )


def voters(host: VirtualHost) -> tuple[int, ...]:
    return host.node.quorum.core.log.voter_set.ids


def test_r4_a_node_that_responds_at_its_endpoint_is_added() -> None:
    cluster, leader, removed = three_nodes_with_removed_voter()
    assert removed not in voters(leader)
    response = ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, add_request(removed, host_of(removed)))
    assert response.error_code == 0
    assert voters(leader) == NODES
    cluster.check()


def test_r4_a_node_that_does_not_respond_is_not_added() -> None:
    """An example is a broker that has caught up but has no listener for controllers."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    before = leader.node.quorum.end
    response = ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, add_request(removed, "nowhere"))
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (removed in voters(leader), leader.node.quorum.end) == (False, before)


@pytest.mark.parametrize("offered", [{}, {"kraft.version": (0, 0)}])
def test_r4_a_node_without_the_kraft_version_is_not_added(
    offered: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, leader, removed = three_nodes_with_removed_voter()
    monkeypatch.setattr(api_versions, "OFFERED", offered)
    response = ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, add_request(removed, host_of(removed)))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert removed not in voters(leader)


def test_r12_an_auto_join_of_a_removed_voter_is_refused() -> None:
    """The request may have been sent before the removal. An operator can still add the voter."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    request = add_request(removed, host_of(removed))
    response = ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, request.replace(is_auto_join=True))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert removed not in voters(leader)
    response = ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, request)
    assert response.error_code == 0
    assert leader.node.quorum.core.log.voter_set.removed == ()

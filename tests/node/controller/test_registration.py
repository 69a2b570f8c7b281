"""Registrations of controllers, by which the active controller knows what each supports."""

from __future__ import annotations

from kraftlog.node.controller.registration import ControllerRegistration
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.unregister_controller import UnregisterControllerRequest
from tests.node.parts import part_of
from tests.node.test_adding_voters import add_request, ask, three_nodes_with_removed_voter, voters
from tests.node.three_nodes import NODES, ThreeNodes
from tests.virtual_host import VirtualHost, host_of


def incarnations(cluster: ThreeNodes) -> dict[int, bytes]:
    """The incarnation id of each registered controller, on all nodes."""
    found = [
        {node_id: it.incarnation_id for node_id, it in host.node.image.controllers.items()}
        for host in cluster.hosts.values()
    ]
    assert found == [found[0]] * len(NODES)
    return found[0]


def unregister(cluster: ThreeNodes, leader: VirtualHost, controller_id: int) -> int:
    request = UnregisterControllerRequest(controller_id=controller_id)
    code: int = ask(cluster, leader, ApiKey.UNREGISTER_CONTROLLER, request).error_code
    cluster.settle(5000)
    return code


def test_a_running_observer_registers_again_once_it_is_unregistered() -> None:
    """Only a stopped controller stays unregistered, as in Kafka (KIP-1312)."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    assert list(incarnations(cluster)) == [removed]
    end = leader.node.quorum.end
    assert unregister(cluster, leader, removed) == 0
    assert list(incarnations(cluster)) == [removed]
    assert leader.node.quorum.end > end + 1


def test_a_voter_replaces_the_registration_of_an_earlier_process() -> None:
    """That of an observer, or of Kafka, would limit feature levels to those of earlier software."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    request = add_request(removed, host_of(removed))
    assert ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, request).error_code == 0
    assert voters(leader) == NODES
    registration = part_of(cluster.hosts[removed], ControllerRegistration)
    registration._incarnation = b"of the next run!"
    cluster.settle(5000)
    assert incarnations(cluster) == {removed: b"of the next run!"}


def test_a_voter_that_is_unregistered_stays_so() -> None:
    """Voters need no registration: their endpoints are in the voters record."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    request = add_request(removed, host_of(removed))
    assert ask(cluster, leader, ApiKey.ADD_RAFT_VOTER, request).error_code == 0
    assert unregister(cluster, leader, removed) == 0
    assert incarnations(cluster) == {}

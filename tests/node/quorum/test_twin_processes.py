"""Two processes with one node id: with one directory id, the newer is refused; with two, logged."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.quorum.requests import request_to_wire
from kraftlog.node.quorum.twin_processes import (
    ALTERNATIONS,
    MAX_REPLICAS,
    SharedIds,
    TwinProcesses,
)
from kraftlog.raft import messages as raft
from kraftlog.wire.apis import CONTROLLER, ApiKey
from tests.node.frame_client import FrameClient
from tests.virtual_host import CLUSTER_ID, VirtualHost

THREE = ReplicaKey(3, b"d" * 16)


def refusals(fetches: str) -> list[bool]:
    """For each fetch, whether it is refused.

    A letter is a fetch on the connection of this name; a dot sends all responses that are owed.
    """
    twins = TwinProcesses()
    connections = {letter: object() for letter in fetches}
    responses: list[PendingResponse] = []
    refused = []
    for letter in fetches:
        if letter == ".":
            for pending in responses:
                pending.pieces = []
            continue
        responses.append(PendingResponse(connections[letter]))
        refused.append(twins.refuses(THREE, responses[-1]))
    return refused


@pytest.mark.parametrize(
    "fetches",
    [
        "a.a.a.a.a.a.a",
        "a.a.ab.b.b.b",
        "abcdef",
        "a.b." * 10,
        "ab.b.b." * 10,
        "ab" * (ALTERNATIONS // 2),
    ],
)
def test_one_process_with_several_connections_is_not_refused(fetches: str) -> None:
    """A process may look for the leader on two connections, and get responses late."""
    assert not any(refusals(fetches))


def test_of_two_processes_that_alternate_the_newer_is_refused() -> None:
    refused = refusals("ab" * ALTERNATIONS + "a.b.b.a.b")
    assert refused[: ALTERNATIONS + 1] == [False] * (ALTERNATIONS + 1)
    assert refused[-5:] == [False, True, True, False, True]


@pytest.mark.parametrize("fetches", ["ab.ab.", "ab.aab.b", "ab.a.a.ba."])
def test_responses_in_between_do_not_hide_two_processes(fetches: str) -> None:
    """New records complete both fetches, and one process may fetch twice before the other does."""
    assert any(refusals(fetches * ALTERNATIONS))


def test_a_process_that_replaces_both_is_not_refused() -> None:
    assert refusals("ab" * ALTERNATIONS + "c.c.c.c")[-4:] == [False] * 4


def test_other_replicas_are_not_refused() -> None:
    twins = TwinProcesses()
    first, second = object(), object()
    for _ in range(ALTERNATIONS):
        twins.refuses(THREE, PendingResponse(first))
        twins.refuses(THREE, PendingResponse(second))
    assert twins.refuses(THREE, PendingResponse(second))
    assert not twins.refuses(ReplicaKey(3, b"e" * 16), PendingResponse(second))


def test_the_number_of_remembered_replicas_is_limited() -> None:
    twins = TwinProcesses()
    for number in range(2 * MAX_REPLICAS):
        twins.refuses(ReplicaKey(number, b"d" * 16), PendingResponse(object()))
    assert len(twins._by_replica) == MAX_REPLICAS


ME = ReplicaKey(1, b"m" * 16)


def warnings(*directories: bytes, node_id: int = 3) -> list[str]:
    """The lines logged if nodes with these directories fetch one after the other."""
    shared = SharedIds(ME)
    lines = [
        shared.warning(ReplicaKey(node_id, it * 16), f"host-{it.decode()}") for it in directories
    ]
    return [it for it in lines if it is not None]


def test_two_nodes_with_one_id_and_two_directories_are_logged_once() -> None:
    [line] = warnings(*[b"a", b"b"] * 4)
    assert line == (
        "two nodes run with node.id=3, one with the directory id YWFhYWFhYWFhYWFhYWFhYQ on host "
        "host-a and one with the directory id YmJiYmJiYmJiYmJiYmJiYg on host host-b, and both "
        "fetch the metadata here. Stop the one that should not have this id, and give it a node.id "
        "of its own and an empty directory. Do not replace voter 3 before that"
    )


def test_a_node_that_lost_its_directory_shares_its_id_with_no_other() -> None:
    assert warnings(b"a", b"a", b"b", b"b", b"b") == []


def test_a_node_with_a_new_directory_at_each_start_shares_its_id_with_none() -> None:
    """As with an emptyDir of Kubernetes: no two directories keep alternating."""
    assert warnings(b"a", b"b", b"c", b"d", b"e", b"f") == []
    assert warnings(b"a", b"b", b"a", b"c", b"a") == []


def test_the_line_of_an_id_is_not_repeated_for_more_directories_and_ids() -> None:
    shared = SharedIds(ME)
    lines = [
        shared.warning(ReplicaKey(number, bytes([letter]) * 16), "")
        for number in [*range(1, 2 * MAX_REPLICAS)] * 2
        for letter in b"ababcac"
    ]
    logged = [line for line in lines if line is not None]
    assert len(logged) == len(set(logged)) == MAX_REPLICAS


def test_a_node_with_the_id_of_the_leader_is_logged_at_once() -> None:
    [line] = warnings(b"b", b"b", b"b", node_id=1)
    assert "two nodes run with node.id=1" in line
    assert "bW1tbW1tbW1tbW1tbW1tbQ and one with" in line


def test_a_node_without_an_id_shares_none() -> None:
    assert warnings(b"a", b"b", b"a", b"b", node_id=-1) == []


@pytest.mark.parametrize(("cluster_id", "count"), [("another", 0), (CLUSTER_ID, 1), (None, 1)])
def test_a_node_of_another_cluster_is_no_second_node(cluster_id: str | None, count: int) -> None:
    """Such a node has a wrong address, and its fetch is refused (Q30)."""
    host = VirtualHost()
    other = ReplicaKey(1, b"o" * 16)
    fetch = raft.Fetch(cluster_id, other, host.node.quorum.epoch, 0, 0, 0, 0, 1 << 20)
    FrameClient(host, CONTROLLER).send(ApiKey.FETCH, 17, request_to_wire(fetch)[1])
    host.turn()
    assert len([line for line in host.log_lines if "two nodes run" in line]) == count

"""A node whose leader belongs to another cluster stops with both ids and the remedy (Q31)."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog import effects
from kraftlog.node.quorum.wrong_cluster import WrongClusterStop
from kraftlog.wire.messages.describe_cluster import DescribeClusterResponse
from tests.node.quorum.test_driver import NOW, driver_with_voters

MINE = "this node belongs to cluster cluster (/data/meta.properties), but the leader 2 "
REMEDY = "set log.dirs to this node's own, or format an empty one with the id "


def effects_of_stop(
    claimed: str | None, responds: str | None, *, is_cluster_id_confirmed: bool = False
) -> list[Any]:
    """The effects after a leader of another cluster, with the id `claimed` or none, sent a request.

    The node at the leader's address responds with the cluster id `responds`, or not at all. With
    `is_cluster_id_confirmed` this node has found a leader of its own cluster before that response.
    """
    machine, emitted = driver_with_voters(1, 2, 3)
    assert machine.driver is not None
    requests: list[Any] = []
    stop = WrongClusterStop(
        machine.driver,
        lambda *request: requests.append(request),
        emitted.append,
        "/data",
        "controller.quorum.voters",
    )
    for _ in range(2):
        stop.stop(2, claimed)
    [(peer, address, *_, on_done)] = requests
    machine.driver.core.is_cluster_id_confirmed = is_cluster_id_confirmed
    assert (peer, address) == (2, ("127.0.0.1", 9092))
    response = DescribeClusterResponse(error_code=0, cluster_id=responds or "", brokers=())
    on_done(response if responds else None, NOW)
    machine.driver.core.is_cluster_id_confirmed = False
    stop.stop(2, claimed)
    assert len(requests) == 1 + is_cluster_id_confirmed
    return emitted


def stop_reason(claimed: str | None, responds: str | None) -> str:
    emitted = effects_of_stop(claimed, responds)
    [reason] = [it.reason for it in emitted if isinstance(it, effects.StopNode)]
    return str(reason)


def test_q31_a_node_that_found_its_own_leader_meanwhile_goes_on() -> None:
    """If it loses its own leader later, another cluster's leader stops it again."""
    emitted = effects_of_stop(None, "other", is_cluster_id_confirmed=True)
    assert not [it for it in emitted if isinstance(it, effects.StopNode)]
    [line] = [it.line for it in emitted if isinstance(it, effects.LogLine)]
    assert line == (
        "the leader 2 at 127.0.0.1:9092 belonged to another cluster; this node has found a leader "
        "of its own cluster since, and continues"
    )


@pytest.mark.parametrize("claimed", [None, "other"])
def test_q31_a_stop_names_both_clusters_and_the_address(claimed: str | None) -> None:
    assert stop_reason(claimed, "other") == (
        f"{MINE}at 127.0.0.1:9092 belongs to cluster other. Either this address is wrong: correct "
        f"controller.quorum.voters. Or /data is a directory of another cluster: {REMEDY}of cluster "
        "other"
    )


@pytest.mark.parametrize("responds", [None, "cluster"])
def test_q31_a_leader_without_another_cluster_id_is_named_with_its_address(
    responds: str | None,
) -> None:
    """A node of this node's own cluster may respond at that address by now."""
    assert stop_reason(None, responds).startswith(
        f"{MINE}at 127.0.0.1:9092 belongs to another cluster."
    )


@pytest.mark.parametrize(("claimed", "responds"), [(None, "x"), ("x", None)])
def test_q31_another_clusters_id_cannot_forge_a_line(
    claimed: str | None, responds: str | None
) -> None:
    forged = "x\nquorum: \x1b[2J" + "y" * 30_000
    reason = stop_reason(claimed and forged, responds and forged)
    assert "cluster x?quorum: ?[2Jyyy" in reason
    assert reason.isprintable()
    assert len(reason) < 1000


CONTACTED = (
    "this node belongs to cluster cluster (/data/meta.properties), but the leader 2 of cluster "
    "other contacts it as one of its controllers. Either the controllers of cluster other have "
    "a wrong address: correct it in their configuration. "
)
OWN_DIRECTORY = f"Or /data is a directory of another cluster: {REMEDY}other"


def test_q31_a_stop_says_that_the_other_cluster_has_this_nodes_address() -> None:
    """A node of this node's own cluster responds at its address for the leader."""
    assert stop_reason("other", "cluster") == f"{CONTACTED}{OWN_DIRECTORY}"


def test_q31_a_stop_names_the_key_if_the_address_does_not_respond() -> None:
    """Then either cluster may have a wrong address."""
    assert stop_reason("other", None) == (
        f"{CONTACTED}Or 127.0.0.1:9092, this node's address for node 2, is one of that cluster: "
        f"correct controller.quorum.voters. {OWN_DIRECTORY}"
    )

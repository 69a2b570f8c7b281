"""Q29 to Q31: learning and checking the cluster id."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Voter, VoterSet
from kraftlog.raft.messages import (
    BeginEpoch,
    BeginEpochResult,
    ClusterIdKnown,
    ElectionState,
    EndEpoch,
    FetchResult,
    ReadOffset,
    Send,
    Stop,
    Vote,
    WrongCluster,
)
from tests.raft.single_core import (
    CONFIG,
    EVERY_ROLE,
    SingleCore,
    batch,
    candidate,
    end_epoch,
    follower,
    follower_after_fetch,
    key,
    leader,
    of_kind,
    prospective,
    replies,
    resigned,
    sends,
    unattached,
)

MISMATCH = ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize("cluster_id", ["cluster", None])
@pytest.mark.parametrize(
    ("make", "timer"),
    [
        (unattached, "discover"),
        (unattached, "election"),
        (follower, "fetch timeout"),
        (prospective, "election"),
    ],
)
def test_q30_every_request_carries_the_cluster_id_or_null(
    make: Any, timer: str, cluster_id: str | None
) -> None:
    context = make(cluster_id=cluster_id)
    sent = of_kind(Send, context.start_effects) + of_kind(Send, context.wait_for(timer))
    assert all(send.body.cluster_id == cluster_id for send in sent)


@pytest.mark.parametrize("cluster_id", ["cluster", None])
def test_q30_candidates_and_leaders_send_the_cluster_id_or_null(cluster_id: str | None) -> None:
    context = prospective(cluster_id=cluster_id)
    sent = of_kind(Send, context.respond(2, context.vote_result()))
    sent += of_kind(Send, context.respond(2, context.vote_result())) + of_kind(
        Send, context.shut_down()
    )
    assert {type(send.body) for send in sent} == {Vote, BeginEpoch, EndEpoch}
    assert {send.body.cluster_id for send in sent} == {cluster_id}


@pytest.mark.parametrize("own_id", ["cluster", None])
@pytest.mark.parametrize("sent_id", ["cluster", None, "other", ""])
@pytest.mark.parametrize("kind", ["vote", "pre-vote", "begin", "end", "fetch", "read"])
def test_q30_only_null_skips_the_check_of_the_cluster_id(
    kind: str, own_id: str | None, sent_id: str | None
) -> None:
    """C85: an empty id does not match either."""
    context = (
        leader(cluster_id=own_id) if kind in {"fetch", "read"} else unattached(cluster_id=own_id)
    )
    body: Any = {
        "vote": context.vote(cluster_id=sent_id),
        "pre-vote": context.vote(cluster_id=sent_id, pre_vote=True),
        "begin": context.begin_epoch(cluster_id=sent_id),
        "end": end_epoch(3, 5).replace(cluster_id=sent_id),
        "fetch": context.fetch(cluster_id=sent_id),
        "read": ReadOffset(sent_id),
    }[kind]
    errors = [answer.error for answer in replies(context.ask(body))]
    differs = None not in {own_id, sent_id} and own_id != sent_id
    assert (MISMATCH in errors) is differs


#: Roles in which the quorum has confirmed the cluster id since the start.
CONFIRMED = {"leader": leader, "resigned": resigned, "follower_after_fetch": follower_after_fetch}
UNCONFIRMED = {name: make for name, make in EVERY_ROLE.items() if name not in CONFIRMED}


@pytest.mark.parametrize("make", UNCONFIRMED.values(), ids=UNCONFIRMED)
def test_q31_a_begin_of_another_cluster_stops_an_unconfirmed_node(make: Any) -> None:
    context = make()
    before = context.state
    effects = context.ask(context.begin_epoch(2, 6, cluster_id="other"))
    assert [answer.error for answer in replies(effects)] == [MISMATCH]
    assert len(of_kind(Stop, effects)) == 1
    assert context.state == before


@pytest.mark.parametrize("make", CONFIRMED.values(), ids=CONFIRMED)
def test_q31_a_begin_of_another_cluster_is_refused_and_logged_once(make: Any) -> None:
    context = make()
    before = context.state
    for leader_id, logged in ((3, 1), (3, 0), (2, 1)):
        effects = context.ask(context.begin_epoch(leader_id, 6, cluster_id="other"))
        assert [answer.error for answer in replies(effects)] == [MISMATCH]
        assert of_kind(WrongCluster, effects) == [WrongCluster(leader_id)] * logged
        assert of_kind(Stop, effects) == []
    assert context.state == before


def test_q31_a_refused_fetch_confirms_nothing() -> None:
    context = follower()
    context.respond(2, context.fetch_result(error=ErrorCode.FENCED_LEADER_EPOCH))
    assert len(of_kind(Stop, context.ask(context.begin_epoch(2, 6, cluster_id="other")))) == 1


def test_q31_a_confirmed_follower_survives_a_mismatch_of_its_leader() -> None:
    """The leader's address may belong to another cluster by now."""
    context = follower_after_fetch()
    effects = context.respond(2, context.fetch_result(error=MISMATCH))
    assert of_kind(WrongCluster, effects) == [WrongCluster(2)]
    assert of_kind(Stop, effects) == []
    assert context.state == ("follower", 5, 2, -1)
    context.wait_for("fetch timeout")
    assert context.role == "prospective"


@pytest.mark.parametrize("make", [unattached, follower, prospective, candidate])
def test_q31_no_epoch_of_another_cluster_is_adopted(make: Any) -> None:
    context = make()
    before = context.state
    if make is unattached:
        (send,) = of_kind(Send, context.wait_for("discover"))
        context.respond(send.peer, context.fetch_result(error=MISMATCH, epoch=9, leader_id=7))
    elif make is follower:
        context.respond(2, context.fetch_result(error=MISMATCH, epoch=9, leader_id=2))
    else:
        context.respond(2, context.vote_result(granted=True, error=MISMATCH, epoch=9))
    assert context.state == before


@pytest.mark.parametrize("make", EVERY_ROLE.values(), ids=EVERY_ROLE)
@pytest.mark.parametrize("kind", ["vote", "pre-vote", "end", "fetch", "read"])
def test_q31_any_other_request_of_another_cluster_is_only_refused(make: Any, kind: str) -> None:
    context = make()
    before = context.state
    body: Any = {
        "vote": context.vote(cluster_id="other", epoch=9),
        "pre-vote": context.vote(cluster_id="other", epoch=9, pre_vote=True),
        "end": end_epoch(2, 9, 1).replace(cluster_id="other"),
        "fetch": context.fetch(cluster_id="other"),
        "read": ReadOffset("other"),
    }[kind]
    effects = context.ask(body)
    assert [effect for effect in effects if isinstance(effect, Stop)] == []
    assert all(answer.error for answer in replies(effects))
    assert context.state == before


def test_q31_the_followed_leader_may_stop_an_unconfirmed_node() -> None:
    context = follower()
    assert len(of_kind(Stop, context.respond(2, context.fetch_result(error=MISMATCH)))) == 1


def test_q31_a_self_declared_leader_may_stop_an_unconfirmed_node() -> None:
    context = unattached()
    (send,) = of_kind(Send, context.wait_for("discover"))
    effects = context.respond(send.peer, context.fetch_result(error=MISMATCH, leader_id=send.peer))
    assert len(of_kind(Stop, effects)) == 1


def test_q31_after_a_mismatch_of_a_non_leader_the_next_node_is_asked() -> None:
    context = unattached()
    sent = set()
    for _ in range(8):
        (send,) = of_kind(Send, context.wait_for("discover"))
        sent.add(send.peer)
        assert of_kind(Stop, context.respond(send.peer, context.fetch_result(error=MISMATCH))) == []
    assert sent == {2, 3}
    assert context.state == ("unattached", 5, -1, -1)


@pytest.mark.parametrize("make", [prospective, candidate])
def test_q31_a_vote_refused_for_the_cluster_id_is_no_vote(make: Any) -> None:
    context = make()
    effects = context.respond(2, context.vote_result(False, error=MISMATCH))
    assert of_kind(Stop, effects) == []
    context.respond(3, context.vote_result())
    assert context.role == ("candidate" if make is prospective else "leader")


def test_q31_a_refused_end_quorum_epoch_stops_no_node() -> None:
    from kraftlog.raft.messages import EndEpochResult

    context = leader()
    context.shut_down()
    assert context.respond(2, EndEpochResult(MISMATCH, -1, 5)) == []
    assert context.role == "resigned"


def test_q29_a_committed_cluster_id_is_stored_and_then_checked() -> None:
    context = follower(cluster_id=None)
    voters = VoterSet(tuple([Voter(key(voter)) for voter in (1, 2, 3)]), cluster_id="new")
    effects = context.respond(2, context.fetch_result(batch(10, 5, voters=voters)))
    assert of_kind(ClusterIdKnown, effects) == []
    assert context.core.cluster_id is None
    effects = context.respond(2, context.fetch_result(high_watermark=11))
    assert of_kind(ClusterIdKnown, effects) == [ClusterIdKnown("new")]
    assert context.response_to(context.vote(3, cluster_id="cluster")).error == MISMATCH


def test_q29_a_known_cluster_id_is_not_reported_again() -> None:
    context = follower()
    voters = VoterSet(tuple([Voter(key(voter)) for voter in (1, 2, 3)]), cluster_id="cluster")
    effects = context.respond(
        2, context.fetch_result(batch(10, 5, voters=voters), high_watermark=11)
    )
    assert of_kind(ClusterIdKnown, effects) == []


# Voter keys and authorization ---------------------------------------------------------------


@pytest.mark.parametrize("receiver", [key(2), key(1).replace(directory_id=b"x" * 16)])
@pytest.mark.parametrize("make", EVERY_ROLE.values(), ids=EVERY_ROLE)
def test_q12_begin_quorum_epoch_for_another_replica_is_refused(make: Any, receiver: Any) -> None:
    """C87: a wiped disk is another replica."""
    context = make()
    before = context.state
    answer = context.response_to(context.begin_epoch(3, 6, receiver=receiver))
    assert answer.error == ErrorCode.INVALID_VOTER_KEY
    assert context.state == before


@pytest.mark.parametrize("kind", ["fetch", "vote", "begin"])
def test_cluster_authorization_failed_stops_the_node(kind: str) -> None:
    """C89: as in Kafka, since a retry cannot help."""
    unauthorized = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if kind == "fetch":
        context = follower()
        effects = context.respond(2, context.fetch_result(error=unauthorized))
    elif kind == "vote":
        context = candidate()
        effects = context.respond(2, context.vote_result(False, error=unauthorized))
    else:
        context = leader()
        effects = context.respond(2, BeginEpochResult(unauthorized, -1, 5))
    (stop,) = of_kind(Stop, effects)
    assert "not authorized" in stop.reason


def broker(*bootstrap_ids: int) -> SingleCore:
    """An observer without a log, which knows addresses but no node ids."""
    config = CONFIG.replace(bootstrap_ids=bootstrap_ids)
    return SingleCore(ElectionState(0), voters=VoterSet(), end=0, config=config)


def stops_after_mismatches(context: SingleCore, *peers: int) -> list[Stop]:
    """The Stop effects after each of these peers has responded as a node of another cluster."""
    stops: list[Stop] = []
    remaining = list(peers)
    while remaining:
        for peer in sends(context.wait_for("discover")):
            error = MISMATCH if peer in peers else ErrorCode.NOT_LEADER_OR_FOLLOWER
            stops += of_kind(Stop, context.respond(peer, FetchResult(error, -1, 0, -1)))
            remaining = [other for other in remaining if other != peer]
    return stops


def test_q31_a_broker_whose_only_controller_is_of_another_cluster_stops() -> None:
    [stop] = stops_after_mismatches(broker(-2), -2)
    assert "another cluster than its own, cluster" in stop.reason


def test_q31_a_broker_continues_while_another_controller_is_left() -> None:
    """It stops once the last response of every controller came from another cluster."""
    context = broker(-2, -3)
    assert stops_after_mismatches(context, -2) == []
    while -2 not in sends(context.wait_for("discover")):
        context.no_response(-3)
    assert of_kind(Stop, context.respond(-2, FetchResult(0, -1, 0, -1))) == []
    assert stops_after_mismatches(context, -3) == []
    assert len(stops_after_mismatches(context, -2, -3)) == 1


def test_q31_a_confirmed_broker_keeps_looking() -> None:
    """Its own quorum has confirmed the cluster id since the start."""
    context = broker(-2)
    context.core.is_cluster_id_confirmed = True
    assert stops_after_mismatches(context, -2) == []


def test_q31_a_voter_with_only_foreign_peers_keeps_looking() -> None:
    context = unattached()
    assert stops_after_mismatches(context, 2, 3) == []

"""P1, P3, P4: pre-votes, which keep a live leader from being deposed."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import ElectionState, Fetch, PersistElection, Response, Vote
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    end_epoch,
    follower,
    key,
    of_kind,
    prospective,
    resigned,
    sends,
    unattached,
    voted,
    voters_of,
)


@pytest.mark.parametrize(
    ("make", "timer"),
    [
        (unattached, "election"),
        (voted, "election"),
        (follower, "fetch timeout"),
        (resigned, "election"),
    ],
)
def test_p1_pre_vote_keeps_the_epoch_and_persists_no_vote(make: Any, timer: str) -> None:
    """C21, C63."""
    context = make()
    vote = context.persisted.voted
    effects = context.wait_for(timer)
    log = context.core.log
    assert sends(effects) == {
        peer: Vote("cluster", key(peer), 5, key(1), log.last_epoch, log.end, True)
        for peer in (2, 3)
    }
    assert (context.role, context.core.election.epoch) == ("prospective", 5)
    assert all(persist.state.voted == vote for persist in of_kind(PersistElection, effects))
    assert context.persisted.epoch == 5


@pytest.mark.parametrize("make", [unattached, voted, follower])
def test_p1_pre_vote_persists_nothing(make: Any) -> None:
    """C21."""
    context = make()
    before = context.core.election
    timer = "election" if "election" in context.core.timers else "fetch timeout"
    assert of_kind(PersistElection, context.wait_for(timer)) == []
    for peer in (2, 3):
        context.respond(peer, context.vote_result(False))
    assert context.core.election == before


def test_p3_a_majority_of_pre_votes_starts_an_election() -> None:
    """C25."""
    context = prospective(voters=voters_of(1, 2, 3, 4, 5))
    context.respond(2, context.vote_result())
    assert context.role == "prospective"
    votes = sends(context.respond(3, context.vote_result()))
    assert context.state == ("candidate", 6, -1, 1)
    assert {peer: vote.pre_vote for peer, vote in votes.items()} == dict.fromkeys(
        (2, 3, 4, 5), False
    )


@pytest.mark.parametrize(
    ("make", "timer", "role"),
    [
        (unattached, "election", "unattached"),
        (voted, "election", "voted"),
        (follower, "fetch timeout", "follower"),
    ],
)
@pytest.mark.parametrize("how", ["refused", "silence"])
def test_p3_a_lost_pre_vote_restores_the_previous_role(
    make: Any, timer: str, role: str, how: str
) -> None:
    """C26."""
    context = make()
    before = context.core.election
    context.wait_for(timer)
    if how == "refused":
        for peer in (2, 3):
            context.respond(peer, context.vote_result(False))
    else:
        assert ELECTION_TIMEOUT_MS <= context.ms_until("election") < 2 * ELECTION_TIMEOUT_MS
        context.wait_for("election")
    assert (context.role, context.core.election) == (role, before)


def test_p3_a_resigned_leader_without_pre_votes_finds_the_new_leader() -> None:
    """Q11: it follows no leader until it wins or learns of a newer one."""
    context = resigned()
    context.wait_for("election")
    assert context.role == "prospective"
    for peer in (2, 3):
        context.respond(peer, context.vote_result(False))
    assert context.state == ("voted", 5, -1, 1)
    assert set(sends(context.wait_for("discover"))) <= {2, 3}


@pytest.mark.parametrize("leader_known", [False, True])
def test_q16_a_prospective_voter_follows_an_announced_leader_at_once(leader_known: bool) -> None:
    """C27."""
    context = follower() if leader_known else unattached()
    context.wait_for("fetch timeout" if leader_known else "election")
    assert context.role == "prospective"
    sent = sends(context.ask(context.begin_epoch(2, 5)))
    assert context.state == ("follower", 5, 2, -1)
    assert (sent[2].epoch, sent[2].offset) == (5, 10)
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS


def test_p2_a_refusal_that_names_the_leader_is_adopted() -> None:
    """C27."""
    context = prospective()
    context.respond(2, context.vote_result(False, leader_id=3))
    assert context.state == ("follower", 5, 3, -1)


def test_p2_a_refusal_with_a_newer_epoch_is_adopted() -> None:
    context = prospective()
    context.respond(
        2, context.vote_result(False, epoch=8, leader_id=3, error=ErrorCode.FENCED_LEADER_EPOCH)
    )
    assert context.state == ("follower", 8, 3, -1)


def test_q12_a_prospective_voter_may_still_grant_its_vote() -> None:
    """C24."""
    context = prospective()
    assert context.response_to(context.vote(2)).granted
    assert context.core.election == ElectionState(5, -1, key(2))
    assert not context.response_to(context.vote(3)).granted


def test_q17_a_prospective_successor_becomes_a_candidate() -> None:
    context = follower()
    context.wait_for("fetch timeout")
    context.ask(end_epoch(2, 5, 1))
    assert context.state == ("candidate", 6, -1, 1)


def test_p4_a_peer_without_pre_vote_support_counts_as_a_grant() -> None:
    """No epoch changes before a majority is reached that way. C29."""
    context = prospective(voters=voters_of(1, 2, 3, 4, 5))
    unsupported = context.vote_result(False, error=ErrorCode.UNSUPPORTED_VERSION)
    context.respond(2, unsupported)
    assert context.state == ("prospective", 5, -1, -1)
    assert sorted(sends(context.respond(3, unsupported))) == [2, 3, 4, 5]
    assert context.state == ("candidate", 6, -1, 1)


def test_p4_an_unsupported_vote_request_is_no_vote() -> None:
    context = prospective()
    context.respond(2, context.vote_result())
    context.respond(2, context.vote_result(False, error=ErrorCode.UNSUPPORTED_VERSION))
    assert context.role == "candidate"


# Networks ------------------------------------------------------------------------------------


def elected_network(*ids: int) -> CoreNetwork:
    net = CoreNetwork(*ids)
    net.pass_time(5000)
    net.leader()  # fails if there is none
    return net


def test_p3_a_voter_that_was_cut_off_returns_in_its_epoch() -> None:
    """C135."""
    net = elected_network(1, 2, 3)
    leader = net.leader()
    epoch = leader.election.epoch
    isolated = next(core_id for core_id in (1, 2, 3) if core_id != leader.me.id)
    net.isolate(isolated)
    net.pass_time(60_000)
    assert net.core(isolated).election.epoch == epoch
    net.heal()
    net.pass_time(5000)
    assert net.leader() is leader
    assert {host.core.election.epoch for host in net.hosts.values()} == {epoch}
    assert net.core(isolated).role.name == "follower"


def test_p3_a_cut_between_the_leader_and_one_follower_deposes_no_leader() -> None:
    """C135."""
    net = elected_network(1, 2, 3)
    leader = net.leader()
    epoch = leader.election.epoch
    cut_off = next(core_id for core_id in (1, 2, 3) if core_id != leader.me.id)
    net.cut |= {(cut_off, leader.me.id), (leader.me.id, cut_off)}
    net.pass_time(20_000)
    assert net.leader() is leader
    assert leader.election.epoch == epoch


def test_p3_partly_connected_voters_do_not_alternate_as_leaders() -> None:
    """The ping-pong of KIP-996: 4 and 5 reach only 2, which all others reach. C135."""
    net = CoreNetwork(1, 2, 3, 4, 5)
    for partly_connected in (4, 5):
        net.cut |= {(partly_connected, other) for other in (1, 3)} | {
            (other, partly_connected) for other in (1, 3)
        }
    net.cut |= {(4, 5), (5, 4)}
    net.pass_time(10_000)
    epoch = net.leader().election.epoch
    net.pass_time(60_000)
    assert net.leader().election.epoch == epoch


def test_q9_three_new_voters_elect_one_leader_that_all_follow() -> None:
    net = elected_network(1, 2, 3)
    leader = net.leader()
    assert {host.core.election.leader_id for host in net.hosts.values()} == {leader.me.id}
    assert len({host.core.log.high_watermark for host in net.hosts.values()}) == 1
    assert leader.log.high_watermark == leader.log.end


def test_q11_the_others_replace_a_leader_that_is_cut_off() -> None:
    net = elected_network(1, 2, 3)
    old = net.leader()
    net.isolate(old.me.id)
    net.pass_time(10_000)
    new = net.leader()
    assert new is not old
    assert old.role.name != "leader"
    net.heal()
    net.pass_time(5000)
    assert old.role.name == "follower"
    assert old.election.leader_id == new.me.id


# Several rounds ------------------------------------------------------------------------------


@pytest.mark.parametrize("granted_first", [True, False])
def test_p1_each_pre_vote_round_starts_without_votes(granted_first: bool) -> None:
    """C23: a voter may grant one round and refuse the next, or the reverse."""
    context = prospective(voters=voters_of(1, 2, 3, 4, 5))
    context.respond(2, context.vote_result(granted_first))
    context.wait_for("election")
    assert context.role == "unattached"
    context.wait_for("election")
    assert context.role == "prospective"
    context.respond(2, context.vote_result(not granted_first))
    assert context.role == "prospective"
    context.respond(3, context.vote_result())
    assert context.role == ("prospective" if granted_first else "candidate")


def test_r8_pre_votes_of_non_voters_do_not_count() -> None:
    """C23."""
    context = prospective()
    context.core.send(9, context.vote())
    context.step()
    context.respond(9, context.vote_result())
    assert context.role == "prospective"


def test_p3_an_answer_to_an_earlier_round_is_ignored() -> None:
    """C28: also once the replica follows a leader."""
    context = prospective()
    earlier_request = context.core.peer(2).in_flight
    context.wait_for("election")
    context.wait_for("election")
    assert context.role == "prospective"
    context.step(Response(2, earlier_request, context.vote_result()))
    assert context.role == "prospective"
    earlier_request = context.core.peer(2).in_flight
    context.ask(context.begin_epoch(3, 5))
    context.step(Response(2, earlier_request, context.vote_result()))
    assert context.state == ("follower", 5, 3, -1)


def test_q24_an_unanswered_pre_vote_request_is_repeated() -> None:
    """C30."""
    context = prospective()
    context.no_response(2)
    repeated = sends(context.wait_for("ask 2"))
    assert list(repeated) == [2]
    assert repeated[2].pre_vote
    context.respond(2, context.vote_result())
    assert context.role == "candidate"


def test_q12_a_prospective_voter_that_knows_the_leader_refuses_votes() -> None:
    """C24, C6."""
    context = follower()
    context.wait_for("fetch timeout")
    assert not context.response_to(context.vote(3)).granted
    assert context.state == ("prospective", 5, 2, -1)


def test_q24_a_voter_looks_for_the_leader_between_elections() -> None:
    """C14, C136: KAFKA-17030, a voter that cannot win must be able to find the leader."""
    context = unattached()
    for _ in range(4):
        sent = set()
        while context.ms_until("discover") < context.ms_until("election"):
            for peer, body in sends(context.wait_for("discover")).items():
                assert isinstance(body, Fetch)
                sent.add(peer)
                context.respond(peer, context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        context.wait_for("election")
        for peer in (2, 3):
            context.respond(peer, context.vote_result(False))
        assert context.role == "unattached"
    context.wait_for("discover")
    (peer,) = [peer for peer in (2, 3) if context.core.peer(peer).in_flight >= 0]
    context.respond(peer, context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=3))
    assert context.state == ("follower", 5, 3, -1)

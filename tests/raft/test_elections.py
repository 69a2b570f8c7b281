"""Q9, Q10, Q13: when a replica campaigns, and how an election ends."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.messages import (
    MAX_EPOCH,
    BeginEpoch,
    Committed,
    ElectionDurable,
    ElectionState,
    LeaderChanged,
    PersistElection,
    Response,
    Send,
    Stop,
    Vote,
)
from kraftlog.raft.quorum import check_transition
from kraftlog.raft.roles.follower import STAGGER_MS
from tests.raft.single_core import (
    CONFIG,
    ELECTION_TIMEOUT_MS,
    EVERY_ROLE,
    FETCH_TIMEOUT_MS,
    VOTER_ROLES,
    SingleCore,
    batch,
    candidate,
    end_epoch,
    follower,
    follower_after_fetch,
    key,
    of_kind,
    prospective,
    sends,
    unattached,
    voted,
    voters_of,
)

FIVE = voters_of(1, 2, 3, 4, 5)
MAX_BACKOFF_MS = CONFIG.election_backoff_max_ms


# Timing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [follower, follower_after_fetch])
def test_q9a_a_follower_of_a_silent_leader_requests_pre_votes(make: Any) -> None:
    """C65."""
    context = make()
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS
    context.wait(FETCH_TIMEOUT_MS - 1)
    assert context.state == ("follower", 5, 2, -1)
    votes = sends(context.wait(1))
    assert context.state == ("prospective", 5, 2, -1)
    assert sorted(votes) == [2, 3]
    assert all(vote.pre_vote for vote in votes.values())


def test_q9a_only_a_successful_fetch_resets_the_timeout() -> None:
    """C65."""
    context = follower_after_fetch()
    context.wait(100)
    context.respond(2, context.fetch_result())
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS
    context.wait(100)
    context.respond(2, context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    context.wait_for("fetch")
    context.no_response(2)
    context.ask(context.begin_epoch())
    context.ask(context.vote(3))
    assert context.ms_until("fetch timeout") < FETCH_TIMEOUT_MS - 100


def test_q9a_proof_that_the_leader_is_dead_counts_as_its_timeout() -> None:
    context = follower_after_fetch()
    context.lose_peer(3)
    assert context.role == "follower"
    context.lose_peer(2)
    assert context.state == ("prospective", 5, 2, -1)


def test_q9a_voters_that_see_the_leader_dead_take_turns() -> None:
    """Q9a, Q10: the survivor with the lowest id campaigns at once, the next one a little later."""
    context = follower_after_fetch(me=key(3))
    context.lose_peer(2)
    assert context.state == ("follower", 5, 2, -1)
    context.wait(STAGGER_MS - 1)
    assert context.role == "follower"
    context.wait(1)
    assert context.state == ("prospective", 5, 2, -1)


def test_q9b_the_first_successor_campaigns_at_once_without_a_pre_vote() -> None:
    context = follower_after_fetch()
    votes = sends(context.ask(end_epoch(2, 5, 1, 3)))
    assert context.state == ("candidate", 6, -1, 1)
    assert {peer: vote.pre_vote for peer, vote in votes.items()} == {2: False, 3: False}


def test_q9c_a_timed_out_candidate_requests_pre_votes() -> None:
    """C38."""
    context = candidate()
    assert ELECTION_TIMEOUT_MS <= context.ms_until("election") < 2 * ELECTION_TIMEOUT_MS
    votes = sends(context.wait_for("election"))
    assert context.state == ("prospective", 5, -1, 1)
    assert [vote.pre_vote for vote in votes.values()] == [True, True]


@pytest.mark.parametrize("make", [unattached, voted])
def test_q9d_a_voter_without_a_leader_requests_pre_votes_after_a_timeout(make: Any) -> None:
    """C13."""
    context = make()
    before = context.core.election
    assert ELECTION_TIMEOUT_MS <= context.ms_until("election") < 2 * ELECTION_TIMEOUT_MS
    votes = sends(context.wait_for("election"))
    assert context.role == "prospective"
    assert context.core.election == before
    assert [vote.pre_vote for vote in votes.values()] == [True, True]


def test_q9d_granting_a_vote_restarts_the_election_timeout() -> None:
    """The candidate gets a full timeout, however many attempts of this voter have failed."""
    context = unattached()
    for _ in range(6):
        context.wait_for("election")
        for peer in (2, 3):
            context.respond(peer, context.vote_result(False))
    context.ask(context.vote(2, epoch=6))
    assert context.state == ("voted", 6, -1, 2)
    assert ELECTION_TIMEOUT_MS <= context.ms_until("election") < 2 * ELECTION_TIMEOUT_MS


# Randomness --------------------------------------------------------------------------------------


def test_q10_election_timeouts_differ_between_replicas_and_between_epochs() -> None:
    by_seed = {unattached(config=RaftConfig(seed=seed)).ms_until("election") for seed in range(20)}
    by_epoch = {SingleCore(ElectionState(epoch)).ms_until("election") for epoch in range(1, 21)}
    assert min(len(by_seed), len(by_epoch)) > 15
    assert all(ELECTION_TIMEOUT_MS <= wait < 2 * ELECTION_TIMEOUT_MS for wait in by_seed | by_epoch)


def test_q10_failed_elections_back_off_by_a_growing_random_time() -> None:
    waits = []
    for seed in range(10):
        context = unattached(config=RaftConfig(seed=seed))
        waits_of_replica = []
        for _ in range(10):
            context.wait_for("election")
            context.respond(2, context.vote_result(False))
            context.respond(3, context.vote_result(False))
            assert context.state == ("unattached", 5, -1, -1)
            waits_of_replica.append(context.ms_until("election"))
        waits.append(waits_of_replica)
    longest = [max(nth_waits) for nth_waits in zip(*waits, strict=True)]
    assert all(0 < wait <= MAX_BACKOFF_MS for wait in longest)
    assert longest[0] <= 100 < longest[2] <= 400 < longest[5]
    assert len(set(map(tuple, waits))) == 10


@pytest.mark.parametrize("limit", [0, 3])
def test_p3_a_limit_of_failed_elections_stops_the_replica(limit: int) -> None:
    """Q10: without a limit, the default, it campaigns without end."""
    context = unattached(config=RaftConfig(max_failed_elections=limit))
    effects: list[Any] = []
    for _ in range(3):
        assert of_kind(Stop, effects) == []
        context.wait_for("election")
        context.respond(2, context.vote_result(False))
        effects = context.respond(3, context.vote_result(False))
    stops = [stop.reason for stop in of_kind(Stop, effects)]
    assert len(stops) == (1 if limit else 0)
    assert all("3 elections in a row have failed" in reason for reason in stops)


def test_p3_lost_candidacies_count_for_the_limit_and_a_leader_resets_it() -> None:
    context = candidate(config=RaftConfig(max_failed_elections=1))
    context.respond(2, context.vote_result(False))
    (stop,) = of_kind(Stop, context.respond(3, context.vote_result(False)))
    assert "kraftlog.quorum.max.failed.elections" in stop.reason
    context = unattached(config=RaftConfig(max_failed_elections=2))
    for _ in range(3):
        context.wait_for("election")
        context.respond(2, context.vote_result(False))
        assert of_kind(Stop, context.respond(3, context.vote_result(False))) == []
        assert context.core.attempt == 1
        context.ask(context.begin_epoch(2, context.core.election.epoch + 1))
        context.ask(end_epoch(2, context.core.election.epoch))
        context.core.become("unattached", ElectionState(context.core.election.epoch + 1))


# Candidates --------------------------------------------------------------------------------------


def test_q13_a_candidate_votes_for_itself_and_requests_all_votes() -> None:
    """Q3: its own vote is durable before it requests others. C34."""
    context = prospective(slow_disk=True)
    effects = context.respond(2, context.vote_result())
    assert context.core.election == ElectionState(6, -1, key(1))
    assert of_kind(PersistElection, effects) == [PersistElection(1, context.core.election)]
    assert [(send.peer, send.body, send.after) for send in of_kind(Send, effects)] == [
        (peer, Vote("cluster", key(peer), 6, key(1), 1, 10, False), (ElectionDurable(1),))
        for peer in (2, 3)
    ]


def test_q13_a_candidates_own_vote_counts_only_once_it_is_durable() -> None:
    """Q3, Q1: even a sole voter waits for its disk. C34."""
    sole = unattached(voters=voters_of(1), slow_disk=True)
    assert sole.state == ("candidate", 6, -1, 1)
    sole.persist()
    assert sole.state == ("leader", 6, 1, 1)


@pytest.mark.parametrize("needed", [1, 2])
def test_q13_a_majority_of_votes_makes_a_leader(needed: int) -> None:
    """C36."""
    context = candidate(voters=voters_of(1, 2, 3) if needed == 1 else FIVE)
    for peer in (2, 3)[: needed - 1]:
        context.respond(peer, context.vote_result())
    assert context.role == "candidate"
    effects = context.respond(needed + 1, context.vote_result())
    assert context.state == ("leader", 5, 1, 1)
    assert of_kind(LeaderChanged, effects) == [LeaderChanged(1, 5)]


def test_q13_a_voter_counts_once_and_cannot_change_its_vote() -> None:
    """C35."""
    context = candidate(voters=FIVE)
    for granted in (True, False):
        context.core.send(2, context.vote())
        context.step()
        context.respond(2, context.vote_result(granted))
    context.core.send(2, context.vote())
    context.step()
    context.respond(2, context.vote_result())
    assert context.role == "candidate"  # two of five: itself, and 2 once
    context.respond(3, context.vote_result())
    assert context.role == "leader"


def test_q13_a_majority_of_refusals_is_final_and_backs_off_at_once() -> None:
    """Q10: instead of waiting for the election timeout. C37."""
    context = candidate(voters=FIVE)
    for peer in (2, 3):
        context.respond(peer, context.vote_result(False))
    assert context.ms_until("election") >= ELECTION_TIMEOUT_MS
    context.respond(4, context.vote_result(False))
    assert context.ms_until("election") <= 100
    context.respond(5, context.vote_result())
    context.wait_for("election")
    assert context.state == ("prospective", 5, -1, 1)


def test_q13_an_unanswered_vote_request_is_repeated_with_backoff() -> None:
    """Q24: the backoff grows. C41, C118."""
    context = candidate()
    pauses = []
    for _ in range(8):
        context.no_response(3)
        pauses.append(context.ms_until("ask 3"))
        if context.ms_until("ask 3") >= context.ms_until("election"):
            break
        assert sends(context.wait_for("ask 3"))[3] == context.vote(
            1, receiver=key(3), epoch=5, end_offset=10
        )
    assert pauses[0] <= 40
    assert max(pauses) > 200
    assert context.role == "candidate"


@pytest.mark.parametrize("leader_id", [2, 3])
def test_q16_a_candidate_follows_the_winner_of_its_epoch(leader_id: int) -> None:
    """C40, C68."""
    context = candidate()
    vote_request = context.core.peer(3).in_flight
    context.ask(context.begin_epoch(leader_id, 5))
    assert context.state == ("follower", 5, leader_id, 1)
    context.step(Response(3, vote_request, context.vote_result()))  # requested in another role
    assert context.state == ("follower", 5, leader_id, 1)


def test_q12_a_candidate_refuses_vote_requests_of_its_epoch() -> None:
    """C39."""
    context = candidate()
    assert not context.response_to(context.vote(2)).granted
    assert context.state == ("candidate", 5, -1, 1)


# Epochs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", VOTER_ROLES.values(), ids=VOTER_ROLES)
@pytest.mark.parametrize(("leader_id", "role"), [(-1, "unattached"), (3, "follower")])
def test_q2_a_newer_epoch_in_a_response_is_adopted(make: Any, leader_id: int, role: str) -> None:
    context = make()
    context.core.send(3, context.vote())
    context.step()
    effects = context.respond(3, context.vote_result(epoch=7, leader_id=leader_id))
    assert context.state == (role, 7, leader_id, -1)
    assert context.persisted == ElectionState(7, leader_id)
    assert of_kind(LeaderChanged, effects) == [LeaderChanged(leader_id, 7)]


@pytest.mark.parametrize("make", VOTER_ROLES.values(), ids=VOTER_ROLES)
def test_q2_a_response_of_an_older_epoch_changes_nothing(make: Any) -> None:
    """C18."""
    context = make()
    before = context.state
    context.core.send(3, context.vote())
    context.step()
    context.respond(3, context.vote_result(epoch=4, leader_id=3))
    assert context.state == before


@pytest.mark.parametrize("make", VOTER_ROLES.values(), ids=VOTER_ROLES)
def test_q2_an_unexpected_response_changes_nothing(make: Any) -> None:
    """C68, C117."""
    context = make()
    before = context.state
    context.core.send(3, context.vote())
    number = context.core.peer(3).in_flight
    context.core.send(3, context.vote())
    context.step()
    context.step(Response(3, number, context.vote_result(epoch=9)))
    assert context.state == before


def test_q2_peers_cannot_make_a_replica_the_leader() -> None:
    context = unattached()
    context.wait_for("discover")
    discovery_peer = next(peer for peer in (2, 3) if context.core.peer(peer).in_flight >= 0)
    context.respond(
        discovery_peer,
        context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=7, leader_id=1),
    )
    assert context.state == ("unattached", 7, -1, -1)


def test_q2_at_the_last_epoch_a_node_stops_and_never_wraps() -> None:
    """C145."""
    context = SingleCore(ElectionState(MAX_EPOCH - 1))
    assert context.response_to(context.vote(2, epoch=MAX_EPOCH)).granted
    context.wait_for("election")
    effects = context.respond(3, context.vote_result())
    assert len(of_kind(Stop, effects)) == 1
    assert (context.role, context.core.election.epoch) == ("prospective", MAX_EPOCH)


def test_q13_the_loser_of_two_candidates_follows_the_winner() -> None:
    context = candidate()
    context.respond(2, context.vote_result(False, leader_id=2))
    assert context.state == ("follower", 5, 2, 1)
    assert BeginEpoch not in map(type, sends(context.step()).values())


def test_q13_a_refused_candidate_retries_in_the_next_epoch() -> None:
    """C37, Q10: after a backoff and a pre-vote."""
    context = candidate()
    for peer in (2, 3):
        context.respond(peer, context.vote_result(False))
    context.wait_for("election")
    assert context.state == ("prospective", 5, -1, 1)
    context.respond(2, context.vote_result())
    assert context.state == ("candidate", 6, -1, 1)


@pytest.mark.parametrize("how", ["vote", "campaign"])
def test_q26_commits_are_reported_across_role_changes(how: str) -> None:
    """C42: the role change does not lose the commit."""
    context = follower_after_fetch()
    answer = context.fetch_result(batch(10, 5), high_watermark=11)
    context.core.handle(Response(2, context.core.peer(2).in_flight, answer), context.now)
    if how == "vote":
        effects = context.ask(context.vote(3, epoch=6, end_offset=11, last_epoch=5))
        assert context.state == ("voted", 6, -1, 3)
    else:
        effects = context.ask(end_epoch(2, 5, 1))
        assert context.state == ("candidate", 6, -1, 1)
    assert of_kind(Committed, effects) == [Committed(11)]
    assert context.core.log.high_watermark == 11


# The table of transitions ------------------------------------------------------------------------

LEGAL = {
    ("unattached", "voted"),
    ("unattached", "follower"),
    ("unattached", "prospective"),
    ("unattached", "observer"),
    ("voted", "follower"),
    ("voted", "prospective"),
    ("voted", "observer"),
    ("prospective", "unattached"),
    ("prospective", "voted"),
    ("prospective", "follower"),
    ("prospective", "observer"),
    ("candidate", "leader"),
    ("candidate", "follower"),
    ("candidate", "prospective"),
    ("candidate", "observer"),
    ("leader", "resigned"),
    ("leader", "observer"),
    ("follower", "prospective"),
    ("follower", "observer"),
    ("resigned", "prospective"),
    ("resigned", "observer"),
    ("observer", "unattached"),
    ("observer", "voted"),
    ("observer", "follower"),
    ("observer", "observer"),  # another leader, or none
}


@pytest.mark.parametrize("old", EVERY_ROLE)
@pytest.mark.parametrize("new", EVERY_ROLE)
def test_q1_only_the_listed_transitions_are_legal(old: str, new: str) -> None:
    """C19, C52."""
    if (old, new) in LEGAL:
        check_transition(old, new, newer_epoch=False)
    else:
        with pytest.raises(AssertionError, match=f"{old} may not become {new}"):
            check_transition(old, new, newer_epoch=False)


@pytest.mark.parametrize("old", EVERY_ROLE)
def test_q1_a_newer_epoch_makes_no_leader(old: str) -> None:
    """C19: only a candidate becomes leader, and only a voter becomes candidate."""
    for new in ("leader", "prospective", "resigned"):
        with pytest.raises(AssertionError):
            check_transition(old, new, newer_epoch=True)
    if old in {"leader", "candidate", "resigned", "observer"}:
        with pytest.raises(AssertionError):
            check_transition(old, "candidate", newer_epoch=True)

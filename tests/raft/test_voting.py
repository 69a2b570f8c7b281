"""Q12, P2 and R8: when votes and pre-votes are granted, and their effects."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import (
    ElectionDurable,
    ElectionState,
    PersistElection,
    Reply,
    VoteResult,
)
from kraftlog.types import NULL_UUID
from tests.raft.single_core import (
    EVERY_ROLE,
    FETCH_TIMEOUT_MS,
    VOTER_ROLES,
    SingleCore,
    candidate,
    follower,
    follower_after_fetch,
    key,
    leader,
    observer,
    of_kind,
    prospective,
    resigned,
    unattached,
    voted,
    voters_of,
)

NON_VOTER = 9  # not a voter in any log

in_every_role = pytest.mark.parametrize("make", EVERY_ROLE.values(), ids=EVERY_ROLE)
in_every_voter_role = pytest.mark.parametrize("make", VOTER_ROLES.values(), ids=VOTER_ROLES)
both_kinds = pytest.mark.parametrize("pre_vote", [False, True], ids=["vote", "pre-vote"])


# The checks, in their order ------------------------------------------------------------------


@in_every_role
@both_kinds
def test_q12_a_vote_for_another_cluster_changes_nothing(make: Any, pre_vote: bool) -> None:
    """C85."""
    context = make()
    before = context.state
    answer = context.response_to(context.vote(epoch=9, cluster_id="other", pre_vote=pre_vote))
    assert (answer.error, answer.granted) == (ErrorCode.INCONSISTENT_CLUSTER_ID, False)
    assert context.state == before


@in_every_role
@both_kinds
def test_q12_a_vote_of_an_older_epoch_is_fenced(make: Any, pre_vote: bool) -> None:
    """Q2, Q23 too. C18, C33."""
    context = make()
    before = context.state
    answer = context.response_to(context.vote(epoch=4, last_epoch=1, pre_vote=pre_vote))
    leader_id = context.core.election.leader_id
    assert answer == VoteResult(ErrorCode.FENCED_LEADER_EPOCH, leader_id, 5, False)
    assert context.state == before


@both_kinds
@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": -1, "last_epoch": -1},
        {"last_epoch": -1},
        {"end_offset": -1},
        {"last_epoch": 6},
        {"candidate": ReplicaKey(-1)},
    ],
    ids=str,
)
def test_q28_a_vote_with_impossible_numbers_is_an_invalid_request(
    changes: dict[str, Any], pre_vote: bool
) -> None:
    """C33. C145."""
    context = unattached()
    answer = context.response_to(context.vote(pre_vote=pre_vote, **changes))
    assert (answer.error, answer.granted) == (ErrorCode.INVALID_REQUEST, False)
    assert context.state == ("unattached", 5, -1, -1)


@both_kinds
@pytest.mark.parametrize("receiver", [key(2), ReplicaKey(1, bytes(15) + b"\x77")])
def test_q12_a_vote_meant_for_another_replica_is_refused(
    receiver: ReplicaKey, pre_vote: bool
) -> None:
    """A wiped disk is another replica: it must not vote for its predecessor's id. C87."""
    context = unattached()
    answer = context.response_to(context.vote(epoch=6, receiver=receiver, pre_vote=pre_vote))
    assert (answer.error, answer.granted) == (ErrorCode.INVALID_VOTER_KEY, False)
    assert context.state == ("unattached", 5, -1, -1)


@pytest.mark.parametrize("receiver", [key(1), ReplicaKey(1, NULL_UUID), ReplicaKey(-1, NULL_UUID)])
def test_q12_a_vote_may_omit_an_unknown_directory_id(receiver: ReplicaKey) -> None:
    context = unattached()
    assert context.response_to(context.vote(receiver=receiver)).granted


@pytest.mark.parametrize("make", [follower, follower_after_fetch, leader, resigned])
def test_q12_no_vote_is_granted_in_an_epoch_with_a_known_leader(make: Any) -> None:
    """C16, C51, C61."""
    context = make()
    before = context.state
    assert not context.response_to(context.vote(3)).granted
    assert context.state == before


def test_q12_a_vote_is_given_once_and_to_the_same_candidate_again() -> None:
    """Q2: a vote is never changed; the directory is part of a replica's identity. C15."""
    context = unattached()
    assert context.response_to(context.vote(2)).granted
    assert context.state == ("voted", 5, -1, 2)
    assert not context.response_to(context.vote(3)).granted
    assert not context.response_to(
        context.vote(2, candidate=ReplicaKey(2, bytes(15) + b"\x77"))
    ).granted
    assert context.response_to(context.vote(2)).granted
    assert context.state == ("voted", 5, -1, 2)


@in_every_voter_role
def test_q12_a_newer_epoch_is_adopted_before_the_vote_is_decided(make: Any) -> None:
    """Q2: in every role, and also if the vote is refused. C17, C51, C61."""
    context = make()
    assert context.response_to(context.vote(2, epoch=6)) == VoteResult(0, -1, 6, granted=True)
    assert context.state == ("voted", 6, -1, 2)
    assert context.persisted == ElectionState(6, -1, key(2))
    context = make()
    assert context.response_to(context.vote(2, epoch=6, end_offset=0)) == VoteResult(
        0, -1, 6, granted=False
    )
    assert context.state == ("unattached", 6, -1, -1)
    assert context.persisted == ElectionState(6)


@both_kinds
@pytest.mark.parametrize(
    ("last_epoch", "end", "granted"),
    [
        (3, 10, True),
        (3, 11, True),
        (3, 9, False),
        (2, 50, False),
        (4, 1, True),
        (0, 0, False),
    ],
)
def test_q12_the_later_last_epoch_wins_and_then_the_longer_log(
    last_epoch: int, end: int, granted: bool, pre_vote: bool
) -> None:
    """P2: a pre-vote is decided by the same comparison. C15."""
    context = unattached(epochs=((1, 0), (3, 6)))
    vote = context.vote(last_epoch=last_epoch, end_offset=end, pre_vote=pre_vote)
    assert context.response_to(vote).granted is granted


def test_q12_a_granted_vote_is_durable_before_the_response() -> None:
    """Q3: the response waits for the write of the election state."""
    context = unattached(slow_disk=True)
    persist, reply = context.ask(context.vote(2))[-2:]
    assert isinstance(persist, PersistElection)
    assert persist.state == ElectionState(5, -1, key(2))
    assert reply == Reply(
        101, VoteResult(0, -1, 5, granted=True), (ElectionDurable(persist.version),)
    )


def test_q3_a_newer_epoch_is_durable_before_any_message() -> None:
    context = unattached(slow_disk=True)
    effects = context.ask(context.vote(2, epoch=6, end_offset=0))
    (persist,), (reply,) = of_kind(PersistElection, effects), of_kind(Reply, effects)
    assert persist.state == ElectionState(6)
    assert reply.after == (ElectionDurable(persist.version),)


# Pre-votes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [unattached, voted, prospective, candidate, resigned, follower, observer]
)
def test_p2_without_a_leader_pre_votes_are_granted_repeatedly(make: Any) -> None:
    """P1, C22, C32: nothing is persisted and no vote is used, for any candidate."""
    context = make()
    before = context.state
    for sender in (2, 3, 2, NON_VOTER):
        effects = context.ask(context.vote(sender, pre_vote=True))
        (reply,) = effects
        assert reply.body.granted
    assert context.state == before


@pytest.mark.parametrize("make", [leader, follower_after_fetch])
def test_p2_a_leader_and_its_followers_refuse_pre_votes(make: Any) -> None:
    """C31, C32."""
    context = make()
    answer = context.response_to(context.vote(3, pre_vote=True, end_offset=99))
    assert (answer.error, answer.granted) == (0, False)
    assert answer.leader_id == context.core.election.leader_id  # which the candidate adopts


def test_p2_a_follower_refuses_within_the_fetch_timeout_of_its_leader() -> None:
    """C31."""
    context = follower_after_fetch()
    context.wait(FETCH_TIMEOUT_MS - 1)
    assert not context.response_to(context.vote(3, pre_vote=True)).granted
    context.wait(1)
    assert context.response_to(context.vote(3, pre_vote=True)).granted


@pytest.mark.parametrize(
    ("silent_ms", "granted"), [(FETCH_TIMEOUT_MS - 1, False), (FETCH_TIMEOUT_MS, True)]
)
def test_p2_a_leader_silent_for_a_fetch_timeout_counts_no_more(
    silent_ms: int, granted: bool
) -> None:
    """Also before the timer fires, as the host may poll late."""
    context = follower_after_fetch()
    context.pass_unpolled(silent_ms)
    assert context.role == "follower"
    assert context.response_to(context.vote(3, pre_vote=True)).granted is granted


def test_p2_a_dead_leader_counts_like_a_silent_one() -> None:
    context = follower_after_fetch()
    context.lose_peer(2)
    assert context.response_to(context.vote(3, pre_vote=True)).granted


def test_p2_a_failed_fetch_is_no_contact_with_the_leader() -> None:
    """C31."""
    context = follower()
    context.respond(2, context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert context.response_to(context.vote(3, pre_vote=True)).granted


@in_every_voter_role
def test_p2_a_newer_epoch_of_a_voters_pre_vote_is_adopted_first(make: Any) -> None:
    """C33."""
    context = make()
    assert context.response_to(context.vote(2, epoch=6, pre_vote=True)) == VoteResult(
        0, -1, 6, granted=True
    )
    assert context.state == ("unattached", 6, -1, -1)


def test_p2_a_pre_vote_of_an_older_epoch_is_fenced() -> None:
    """C33."""
    context = follower_after_fetch()
    answer = context.response_to(context.vote(3, epoch=4, pre_vote=True))
    assert answer == VoteResult(ErrorCode.FENCED_LEADER_EPOCH, 2, 5, False)


# Non-voters ---------------------------------------------------------------------------------


def observer_after_fetch() -> SingleCore:
    context = SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    context.respond(2, context.fetch_result())
    return context


@both_kinds
@pytest.mark.parametrize("make", [leader, follower_after_fetch, observer_after_fetch])
def test_r8_a_non_voter_disrupts_no_leader_or_follower(make: Any, pre_vote: bool) -> None:
    """P3: a removed voter can't disrupt. C113."""
    context = make()
    before = context.state
    answer = context.response_to(context.vote(NON_VOTER, epoch=9, pre_vote=pre_vote, end_offset=99))
    assert (answer.granted, answer.epoch) == (False, 5)
    assert context.state == before


@pytest.mark.parametrize("make", [unattached, voted, prospective, candidate, follower, observer])
def test_r8_other_replicas_treat_a_non_voter_like_a_voter(make: Any) -> None:
    """A replica's own log may lack the records that added the new voters."""
    context = make()
    assert context.response_to(context.vote(NON_VOTER, epoch=9)) == VoteResult(
        0, -1, 9, granted=True
    )
    assert context.core.election == ElectionState(9, -1, key(NON_VOTER))
    assert context.response_to(context.vote(3, epoch=9)).granted is False


def test_r8_a_candidate_counts_only_voters_of_its_own_log() -> None:
    """C35."""
    context = candidate()
    context.core.send(NON_VOTER, context.vote())
    context.step()
    context.respond(NON_VOTER, context.vote_result())
    assert context.role == "candidate"
    context.respond(2, context.vote_result())
    assert context.role == "leader"


def test_r8_new_voters_are_elected_by_a_voter_that_does_not_know_them() -> None:
    """Voters 1, 2, 3 grew to include 4 and 5; 3 saw neither change, 1 and 2 are dead."""
    third = SingleCore(ElectionState(5, 2, None), me=key(3), end=8)
    third.wait(FETCH_TIMEOUT_MS)
    assert third.response_to(third.vote(4, pre_vote=True, end_offset=12)).granted
    assert third.response_to(third.vote(4, epoch=6, end_offset=12)).granted

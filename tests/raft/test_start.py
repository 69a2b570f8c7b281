"""The role and epoch of a replica after a start follow from its election state, voters and log."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import ReplicaKey, VoterHistory
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState, EndEpoch, Fetch, Send, Vote
from kraftlog.types import Now
from tests.raft.single_core import (
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    SingleCore,
    follower,
    key,
    of_kind,
    sends,
    voters_of,
)


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        (ElectionState(), ("unattached", 0, -1, -1)),
        (ElectionState(5), ("unattached", 5, -1, -1)),
        (ElectionState(5, -1, key(3)), ("voted", 5, -1, 3)),
        (ElectionState(5, -1, key(1)), ("voted", 5, -1, 1)),
        (ElectionState(5, 2), ("follower", 5, 2, -1)),
        (ElectionState(5, 2, key(3)), ("follower", 5, 2, 3)),
    ],
)
def test_q8_a_voter_starts_in_the_role_of_its_election_state(
    stored: ElectionState, state: tuple[str, int, int, int]
) -> None:
    """C1, C4, C5."""
    end = 10 if stored.epoch else 0
    assert SingleCore(stored, end=end).state == state


def test_q8_a_restarted_leader_is_resigned() -> None:
    """Q8, Q17: it no longer knows what it sent, so it does not lead in that epoch. C7."""
    context = SingleCore(ElectionState(5, 1, key(1)))
    assert context.role == "resigned"
    assert context.propose("pending") != 0
    assert not context.response_to(context.vote(2)).granted
    context.wait_for("election")
    assert (context.role, context.core.election.epoch) == ("prospective", 5)


@pytest.mark.parametrize(
    "stored", [ElectionState(), ElectionState(5, 2), ElectionState(5, -1, key(3))]
)
def test_q1_a_non_voter_starts_as_an_observer(stored: ElectionState) -> None:
    """C3."""
    context = SingleCore(stored, voters=voters_of(2, 3, 4))
    assert context.role == "observer"


@pytest.mark.parametrize(
    "stored",
    [
        ElectionState(),
        ElectionState(5),
        ElectionState(5, -1, key(1)),
        ElectionState(5, 1, key(1)),
    ],
)
def test_q1_a_sole_voter_elects_itself_at_once_without_a_message(stored: ElectionState) -> None:
    """C2."""
    context = SingleCore(stored, voters=voters_of(1), end=10 if stored.epoch else 0)
    assert context.state == ("leader", stored.epoch + 1, 1, 1)
    assert of_kind(Send, context.start_effects) == []


def test_q4_without_quorum_state_a_replica_starts_in_its_logs_epoch() -> None:
    context = SingleCore(ElectionState(), epochs=((1, 0), (7, 4)))
    assert (context.core.election.epoch, context.core.election.leader_id) == (7, -1)
    assert context.persisted == context.core.election
    for candidate in (2, 3):
        assert not context.response_to(context.vote(candidate)).granted
    assert context.response_to(context.vote(2, epoch=8)).granted, "a later epoch has a new vote"


@pytest.mark.parametrize("voted", [2, 3])
def test_q2_a_vote_survives_a_restart(voted: int) -> None:
    """C4."""
    before = SingleCore(ElectionState(4))
    assert before.response_to(before.vote(voted, epoch=5)).granted
    after = SingleCore(before.persisted)
    assert [after.response_to(after.vote(candidate)).granted for candidate in (2, 3)] == [
        voted == candidate for candidate in (2, 3)
    ]


def test_q32_a_voter_without_a_leader_fetches_from_a_voter() -> None:
    """C14."""
    context = SingleCore(ElectionState(5), epochs=((1, 0), (3, 6)))
    (request,) = sends(context.wait_for("discover")).values()
    assert request == Fetch("cluster", key(1), 5, 10, 3, 0, 500, 8 << 20)


def test_q32_a_voter_without_a_leader_campaigns_after_the_timeout() -> None:
    """C13."""
    context = SingleCore(ElectionState(5))
    assert ELECTION_TIMEOUT_MS <= context.ms_until("election") < 2 * ELECTION_TIMEOUT_MS
    votes = sends(context.wait_for("election"))
    assert context.state == ("prospective", 5, -1, -1)
    assert sorted(votes) == [2, 3]
    assert all(isinstance(vote, Vote) and vote.pre_vote for vote in votes.values())


def test_q22_the_high_watermark_starts_at_the_recovered_one() -> None:
    """Q8: the replica still knows which records are committed."""
    context = follower(high_watermark=6)
    assert context.core.log.high_watermark == 6
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS


# Stored state ------------------------------------------------------------------------------


def test_a_node_without_an_id_starts_as_an_observer() -> None:
    """C3."""
    context = SingleCore(ElectionState(), me=ReplicaKey(-1), end=0)
    assert context.state == ("observer", 0, -1, -1)
    (request,) = sends(context.wait_for("discover")).values()
    assert (request.replica.id, request.offset) == (-1, 0)


def test_q24_a_stored_unreachable_leader_stays_known() -> None:
    """C6: its address may be unknown, but the epoch has a leader."""
    context = follower(9)
    assert list(sends(context.start_effects)) == [9]
    while context.role == "follower":
        context.no_response(9)
        context.wait(min(context.ms_until("fetch"), context.ms_until("fetch timeout")))
    assert context.state == ("prospective", 5, 9, -1)
    assert not context.response_to(context.vote(2)).granted
    context.respond(3, context.vote_result(False, epoch=6, leader_id=3))
    assert context.state == ("follower", 6, 3, -1)


def test_q17_a_restarted_leader_sends_end_quorum_epoch() -> None:
    """C7, C8: the other voters need not wait; it names successors without knowing their logs."""
    context = SingleCore(ElectionState(5, 1, key(1)))
    assert sends(context.start_effects) == dict.fromkeys(
        (2, 3), EndEpoch("cluster", 1, 5, (key(2), key(3)))
    )
    successor = follower(1, me=key(2))
    successor.ask(sends(context.start_effects)[2])
    assert successor.state == ("candidate", 6, -1, 2)
    context.no_response(3)
    assert list(sends(context.wait_for("end-epoch 3"))) == [3]
    context.wait_for("election")
    context.respond(2, context.vote_result())
    assert context.state == ("candidate", 6, -1, 1)


def test_q2_a_stored_vote_for_itself_is_not_given_to_another() -> None:
    """C9: it campaigns in the next epoch, with a pre-vote."""
    context = SingleCore(ElectionState(5, -1, key(1)))
    assert not context.response_to(context.vote(2)).granted
    context.wait_for("election")
    assert context.state == ("prospective", 5, -1, 1)
    context.respond(3, context.vote_result())
    assert context.state == ("candidate", 6, -1, 1)


def test_q33_the_voters_in_the_log_override_the_configured_ones() -> None:
    """C12."""
    log = RaftLog(VoterHistory(voters_of(1, 2, 3), ((0, voters_of(4, 5)),)), 0, 1)
    core = RaftCore(key(1), log, ElectionState(), RaftConfig(), Now(0, 0))
    assert (core.role.name, core.others) == ("observer", [4, 5])

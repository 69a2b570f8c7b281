"""Q17: clean resignation, so that no voter has to wait for a timeout."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.messages import EndEpoch, EndEpochResult, Proposed, Response, Send
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    CONFIG,
    ELECTION_TIMEOUT_MS,
    EVERY_ROLE,
    candidate,
    committed_leader,
    end_epoch,
    follower,
    follower_after_fetch,
    key,
    leader,
    observer,
    of_kind,
    replies,
    sends,
    unattached,
    voted,
    voters_of,
)

FOUR = voters_of(1, 2, 3, 4)


# The resigning leader -----------------------------------------------------------------------


def test_q17_a_leader_shutting_down_names_the_most_caught_up_first() -> None:
    """C55."""
    context = leader(voters=FOUR)
    for replica, offset in ((2, 4), (3, 10)):
        context.ask(context.fetch(replica, offset=offset, last_epoch=1), channel=replica)
    effects = context.shut_down()
    end = EndEpoch("cluster", 1, 5, (key(3), key(2), key(4)))
    assert sends(effects) == {2: end, 3: end, 4: end}
    assert (context.role, context.core.election.epoch) == ("resigned", 5)


def test_q17_a_candidate_that_shuts_down_announces_no_leader() -> None:
    context = candidate()
    assert sends(context.shut_down()) == {peer: EndEpoch("cluster", -1, 5, ()) for peer in (2, 3)}


def test_q17_a_resigned_leader_fails_pending_requests() -> None:
    """C61."""
    context = committed_leader()
    context.ask(context.fetch(9), channel=9)
    context.propose("a")
    context.step()
    context.ask(context.fetch(9), channel=9)
    effects = context.shut_down()
    assert of_kind(Proposed, effects) == [Proposed("a", ErrorCode.REQUEST_TIMED_OUT)]
    assert [answer.error for answer in replies(effects)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert context.propose("b") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_q17_end_quorum_epoch_is_repeated_until_answered() -> None:
    """C62."""
    context = leader()
    context.shut_down()
    context.respond(2, EndEpochResult(0, -1, 5))
    pauses = []
    for _ in range(4):
        context.no_response(3)
        pauses.append(context.ms_until("end-epoch 3"))
        assert list(sends(context.wait_for("end-epoch 3"))) == [3]
    assert pauses[-1] > 2 * pauses[0]


@pytest.mark.parametrize("how", ["a new leader", "the election timeout"])
def test_q17_end_quorum_epoch_is_repeated_only_in_its_epoch(how: str) -> None:
    """C55, C63."""
    context = leader()
    context.shut_down()
    context.no_response(3)
    if how == "a new leader":
        context.ask(context.begin_epoch(2, 6))
        assert context.state == ("follower", 6, 2, -1)
    else:
        assert ELECTION_TIMEOUT_MS <= context.ms_until("election") < 2 * ELECTION_TIMEOUT_MS
        context.wait_for("election")
    assert not [name for name in context.core.timers if name.startswith("end-epoch")]


def test_q17_a_resigned_leader_grants_no_vote_in_its_epoch() -> None:
    """C61."""
    context = leader()
    context.shut_down()
    assert not context.response_to(context.vote(2)).granted
    assert context.response_to(context.vote(2, epoch=6)).granted
    assert context.state == ("voted", 6, -1, 2)


def test_q17_a_follower_that_shuts_down_sends_nothing() -> None:
    context = follower_after_fetch()
    assert of_kind(Send, context.shut_down()) == []
    assert context.role == "follower"


# The other voters ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [follower, follower_after_fetch, unattached, voted])
def test_q17_the_first_successor_becomes_a_candidate_at_once(make: Any) -> None:
    """C67."""
    context = make()
    effects = context.ask(end_epoch(2, 5, 1, 3))
    assert [(answer.error, answer.epoch) for answer in replies(effects)] == [(0, 5)]
    assert context.state == ("candidate", 6, -1, 1)


@pytest.mark.parametrize("position", [1, 2, 3, 6, 9])
def test_q17_later_successors_wait_longer_and_skip_the_pre_vote(
    position: int,
) -> None:
    """C67."""
    longest_ms = min(CONFIG.retry_backoff_ms * 2 ** (position - 1), CONFIG.retry_backoff_max_ms)
    successors = (*range(10, 10 + position), 1)
    waits_ms = set()
    for seed in range(20):
        context = follower_after_fetch(config=RaftConfig(seed=seed))
        context.ask(end_epoch(2, 5, *successors))
        assert context.state == ("follower", 5, 2, -1)
        waits_ms.add(context.ms_until("succession"))
        votes = sends(context.wait_for("succession"))
        assert context.state == ("candidate", 6, -1, 1)
        assert not votes[3].pre_vote
    assert longest_ms // 2 <= min(waits_ms)
    assert max(waits_ms) <= longest_ms
    assert len(waits_ms) > min(4, longest_ms // 4)


def test_q17_a_voter_that_is_not_named_keeps_its_ordinary_timeout() -> None:
    context = follower_after_fetch()
    context.wait(300)
    before = dict(context.core.timers)
    context.ask(end_epoch(2, 5, 3))
    assert (context.state, context.core.timers) == (("follower", 5, 2, -1), before)


def test_q17_another_directory_under_the_same_id_is_not_named() -> None:
    from kraftlog.logstate.voters import ReplicaKey

    context = follower_after_fetch()
    context.ask(EndEpoch("cluster", 2, 5, (ReplicaKey(1, bytes(15) + b"\x77"),)))
    assert context.role == "follower"


def test_q17_an_observer_never_campaigns_even_as_successor() -> None:
    context = observer()
    context.ask(end_epoch(2, 5, 1))
    assert context.role == "observer"


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (end_epoch(2, 9, 1).replace(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (end_epoch(2, 4, 1), ErrorCode.FENCED_LEADER_EPOCH),
        (end_epoch(3, 5, 1), ErrorCode.INVALID_REQUEST),
        (end_epoch(1, 5, 1), ErrorCode.INVALID_REQUEST),
        (end_epoch(-7, 6, 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_q17_an_invalid_end_quorum_epoch_changes_nothing(end: EndEpoch, error: int) -> None:
    """Q28: each with its error code."""
    context = follower_after_fetch()
    answer = context.response_to(end)
    assert answer == EndEpochResult(error, 2, 5)
    assert context.state == ("follower", 5, 2, -1)


@pytest.mark.parametrize("make", EVERY_ROLE.values(), ids=EVERY_ROLE)
def test_q17_an_older_epoch_is_fenced_everywhere(make: Any) -> None:
    """C18, C39."""
    context = make()
    before = context.state
    answer = context.response_to(end_epoch(2, 4, 1))
    assert (answer.error, answer.epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)
    assert context.state == before


def test_q17_end_quorum_epoch_of_a_newer_epoch_is_adopted() -> None:
    """Q2: its receiver follows the sender, as the request names no successors."""
    context = unattached()
    context.ask(end_epoch(3, 7))
    assert context.state == ("follower", 7, 3, -1)


def test_q17_a_candidates_end_quorum_epoch_names_no_leader() -> None:
    """A receiver without a leader does not change."""
    context = unattached()
    assert context.response_to(end_epoch(-1, 5)) == EndEpochResult(0, -1, 5)
    assert context.state == ("unattached", 5, -1, -1)


def test_q17_a_handover_takes_less_than_any_timeout() -> None:
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    old = net.leader()
    epoch = old.election.epoch
    old.shut_down(net.now)
    net.deliver_all()
    assert net.leader().election.epoch == epoch + 1
    assert net.leader() is not old


# Responses ----------------------------------------------------------------------------------


def test_q17_an_unexpected_end_response_changes_nothing() -> None:
    """C64."""
    context = leader()
    context.shut_down()
    before = context.core.role.key()
    context.step(Response(9, 77, EndEpochResult(0, -1, 5)))
    context.step(Response(2, 77, EndEpochResult(0, -1, 5)))
    assert (context.role, context.core.role.key()) == ("resigned", before)


def test_q17_a_resigned_leader_still_answers_votes() -> None:
    """C55: its successors need them."""
    context = leader()
    context.shut_down()
    assert context.response_to(context.vote(2, epoch=6)).granted
    assert not context.response_to(context.vote(3, epoch=6)).granted
    assert context.response_to(context.begin_epoch(2, 6)).error == 0
    assert context.state == ("follower", 6, 2, 2)


@pytest.mark.parametrize("make", [unattached, voted])
def test_q17_an_unattached_successor_waits_by_its_position(make: Any) -> None:
    """C67."""
    context = make()
    context.ask(end_epoch(2, 5, 3, 1))
    assert context.role == "follower"
    assert 0 <= context.ms_until("succession") <= CONFIG.retry_backoff_ms
    context.wait_for("succession")
    assert context.state[:2] == ("candidate", 6)

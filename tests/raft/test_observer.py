"""Observers look for the leader until they find it, fetch from it, and do not campaign."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.describe import describe
from kraftlog.raft.messages import Append, Committed, ElectionState, Fetch, LeaderChanged
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    CHECK_QUORUM_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    SingleCore,
    batch,
    committed_leader,
    key,
    observer,
    of_kind,
    replies,
    sends,
    voters_of,
)


def following_observer() -> SingleCore:
    return SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))


def test_q24_an_observer_asks_the_voters_until_it_finds_the_leader() -> None:
    """C90."""
    context = observer()
    asked = []
    for _ in range(30):
        ((peer, body),) = sends(context.wait_for("discover")).items()
        asked.append(peer)
        assert isinstance(body, Fetch)
        context.respond(peer, context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert set(asked) == {2, 3, 4}
    ((peer, _),) = sends(context.wait_for("discover")).items()
    answer = context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=4)
    assert list(sends(context.respond(peer, answer))) == [4]
    assert context.state == ("observer", 5, 4, -1)


def test_q32_an_observer_never_campaigns() -> None:
    """C13, C92."""
    context = observer()
    for _ in range(100):
        for peer in sends(context.wait_for("discover")):
            context.no_response(peer)
    assert context.now.monotonic_ms > 20 * FETCH_TIMEOUT_MS
    assert context.state == ("observer", 5, -1, -1)


def test_q24_an_unreachable_voter_is_retried_with_backoff() -> None:
    """C91."""
    context = observer()
    pauses = []
    for _ in range(60):
        for peer in sends(context.wait_for("discover")):
            context.no_response(peer)
            pauses.append(context.ms_until("discover"))
    limit = context.core.config.retry_backoff_max_ms
    assert max(pauses[:3]) <= 160
    assert limit // 2 <= min(pauses[-10:]) <= max(pauses) <= limit


@pytest.mark.parametrize("how", ["silence", "death"])
def test_q9_an_observer_that_loses_its_leader_looks_again(how: str) -> None:
    """C91."""
    context = following_observer()
    effects = context.wait(FETCH_TIMEOUT_MS) if how == "silence" else context.lose_peer(2)
    assert context.state == ("observer", 5, -1, -1)
    assert of_kind(LeaderChanged, effects) == [LeaderChanged(-1, 5)]
    assert "discover" in context.core.timers or sends(effects)


def test_q22_an_observer_replicates_and_learns_what_is_committed() -> None:
    context = following_observer()
    effects = context.respond(2, context.fetch_result(batch(10, 5), high_watermark=11))
    assert of_kind(Append, effects) == [Append(batch(10, 5))]
    assert of_kind(Committed, effects) == [Committed(11)]
    assert sends(effects)[2].offset == 11


@pytest.mark.parametrize("epoch", [5, 6])
def test_q16_an_observer_that_follows_a_leader_stays_an_observer(epoch: int) -> None:
    context = observer()
    assert context.response_to(context.begin_epoch(3, epoch)).error == 0
    assert context.state == ("observer", epoch, 3, -1)


def test_r8_an_observer_answers_vote_requests() -> None:
    """C92."""
    context = observer()
    assert context.response_to(context.vote(2)).granted
    assert context.response_to(context.vote(3)).granted is False
    assert context.persisted == ElectionState(5, -1, key(2))
    assert context.role == "observer"


def test_q32_an_observer_finds_the_leader_and_its_successor() -> None:
    net = CoreNetwork(1, 2, 3, 9, voters=(1, 2, 3))
    net.pass_time(5000)
    old = net.leader()
    assert net.core(9).election.leader_id == old.me.id
    net.isolate(old.me.id)
    net.pass_time(10_000)
    new = net.leader()
    assert new is not old
    assert net.core(9).role.name == "observer"
    assert net.core(9).election.leader_id == new.me.id
    assert net.core(9).log.high_watermark == new.log.high_watermark


def test_q18_a_fetch_without_an_id_is_answered_but_not_counted() -> None:
    """C93: a tool that reads the log."""
    context = committed_leader()
    context.propose("a")
    context.step()
    for _ in range(3):
        without_id = ReplicaKey(-1)
        (answer,) = replies(
            context.ask(context.fetch(9, replica=without_id, offset=12, max_wait_ms=0))
        )
        assert answer.error == 0
    assert context.core.log.high_watermark == 11
    described = describe(context.core, context.now)
    assert described is not None
    assert described.observers == ()
    context.wait(CHECK_QUORUM_TIMEOUT_MS)
    assert context.role == "resigned"


def test_q32_a_replica_that_seemed_dead_and_was_elected_is_followed() -> None:
    """3 died before it was elected, so a peer that names it as leader is believed."""
    context = following_observer()
    context.lose_peer(3)
    context.lose_peer(2)
    refusal = context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=6, leader_id=-1)
    for leader_id in (-1, 3):
        ((peer, _),) = sends(context.wait_for("discover")).items()
        while peer == 3:
            context.no_response(3)
            ((peer, _),) = sends(context.wait_for("discover")).items()
        context.respond(peer, refusal.replace(leader_id=leader_id))
        assert context.state == ("observer", 6, leader_id, -1)


def test_q9a_a_third_party_cannot_bring_back_a_dead_leader() -> None:
    """Peers that name the leader may not know yet that it is dead."""
    context = following_observer()
    context.lose_peer(2)
    assert context.state == ("observer", 5, -1, -1)
    answer = context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2)
    for _ in range(20):
        ((peer, _),) = sends(context.wait_for("discover")).items()
        if peer == 2:
            context.no_response(2)
        else:
            context.respond(peer, answer)
            assert context.state == ("observer", 5, -1, -1)
    ((peer, _),) = sends(context.wait_for("discover")).items()
    context.respond(peer, answer.replace(leader_id=2, epoch=6))
    assert context.state == ("observer", 6, 2, -1)

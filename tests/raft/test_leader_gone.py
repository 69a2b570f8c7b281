"""Q9a, Q10, Q24: voters do not wait for a dead leader, and only briefly for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import ElectionState, PeerDown
from kraftlog.raft.roles.follower import STAGGER_MS
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    ELECTION,
    SingleCore,
    follower_after_fetch,
    key,
    observer,
    sends,
    voters_of,
)

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore

#: The first backoff of a candidate that has lost.
FIRST_BACKOFF = 100


def standing() -> SingleCore:
    """A candidate of epoch 6, since its leader 2 is gone."""
    context = follower_after_fetch()
    context.gone(2)
    context.answer(3, context.voted())
    assert context.state == ("candidate", 6, -1, 1)
    return context


def test_q10_a_refused_candidate_does_not_wait_for_dead_voters() -> None:
    context = standing()
    context.answer(3, context.voted(False))
    assert context.in_ms("election") >= ELECTION
    context.unanswered(2)
    assert context.in_ms("election") <= FIRST_BACKOFF


def test_q10_dead_voters_count_also_before_the_last_refusal() -> None:
    context = standing()
    context.unanswered(2)
    context.answer(3, context.voted(False))
    context.wait_for("ask 2")
    assert context.in_ms("election") >= ELECTION - FIRST_BACKOFF
    context.unanswered(2)
    assert context.in_ms("election") <= FIRST_BACKOFF


def test_q10_a_voter_that_was_gone_may_still_vote() -> None:
    """Of five, 2 led and is dead; 3 was dead, too, and has a request in flight."""
    context = follower_after_fetch(voters=voters_of(1, 2, 3, 4, 5))
    context.gone(3)
    context.gone(2)
    for peer in (4, 5):
        context.answer(peer, context.voted())
    assert context.role == "candidate"
    context.answer(5, context.voted(False))
    context.unanswered(2)
    assert context.in_ms("election") >= ELECTION
    context.answer(3, context.voted())
    context.answer(4, context.voted())
    assert context.role == "leader"


def test_q10_silence_alone_is_no_refusal() -> None:
    """There is no proof that 3 is dead."""
    context = standing()
    context.unanswered(2)
    context.unanswered(3)
    assert context.in_ms("election") >= ELECTION


def test_p1_a_voter_that_still_follows_is_soon_asked_again() -> None:
    context = follower_after_fetch()
    context.gone(2)
    context.answer(3, context.voted(False, leader_id=2))
    assert context.role == "prospective"
    assert context.in_ms("ask 3") <= context.core.config.retry_backoff_ms
    assert sends(context.wait_for("ask 3"))[3].pre_vote
    context.answer(3, context.voted())
    assert context.role == "candidate"


@pytest.mark.parametrize(("me", "turn"), [(1, 2), (3, 3)])
def test_q9a_a_lagging_voter_campaigns_last(me: int, turn: int) -> None:
    context = follower_after_fetch(me=key(me))
    context.step(PeerDown(2, lags=True))
    context.wait(turn * STAGGER_MS - 1)
    assert context.role == "follower"
    context.wait(1)
    assert context.role == "prospective"


def test_q24_a_peer_that_is_gone_is_seldom_asked_who_leads() -> None:
    """Unless all are dead: then any of them may return first."""
    context = observer()
    context.gone(2)
    context.gone(4)
    asked = [ask(context) for _ in range(40)]
    assert set(asked) == {2, 3, 4}
    assert asked.count(3) >= 24
    context.gone(3)
    assert {ask(context) for _ in range(20)} == {2, 3, 4}


def test_q24_an_observer_finds_a_leader_that_only_seemed_gone() -> None:
    """The leader's process runs; other voters that name it are not believed, as it may be dead."""
    context = SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    context.gone(2)
    hearsay = context.fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2)
    for _ in range(40):
        ((peer, _),) = sends(context.wait_for("discover")).items()
        if peer == 2:
            context.answer(2, context.fetched(leader_id=2))
            break
        context.answer(peer, hearsay)
    assert context.state == ("observer", 5, 2, -1)


def test_q24_a_leader_that_seemed_gone_and_is_no_known_voter_is_asked() -> None:
    """An observer that is behind: of today's voters its log names one, and not the leader."""
    context = SingleCore(ElectionState(5, -1), voters=voters_of(3))
    context.wait_for("discover")
    context.answer(3, context.fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2))
    assert context.state == ("observer", 5, 2, -1)
    context.gone(2)
    assert {ask(context) for _ in range(40)} == {2, 3}


def ask(context: SingleCore) -> int:
    """The next peer that it asks; that one does not respond."""
    [peer] = sends(context.wait_for("discover"))
    context.unanswered(peer)
    return peer


def test_q10_two_survivors_that_split_the_vote_elect_one_of_them_soon() -> None:
    """Each granted the other a pre-vote, as if the first in turn were busy for a moment."""
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    dead = net.leader().me.id
    del net.hosts[dead]
    first, second = [host.core for host in net.hosts.values()]
    see_gone(net, second, dead)
    net.now = net.now.replace(monotonic_ms=net.now.monotonic_ms + STAGGER_MS)
    second.poll(net.now)
    see_gone(net, first, dead)
    assert (first.role.name, second.role.name) == ("prospective", "prospective")
    deliver_in_waves(net, 2)
    assert (first.role.name, second.role.name) == ("candidate", "candidate")
    net.pass_time(3 * FIRST_BACKOFF)
    assert {first.role.name, second.role.name} == {"leader", "follower"}


def see_gone(net: CoreNetwork, core: RaftCore, dead: int) -> None:
    core.handle(PeerDown(dead), net.now)
    net.settle()


def deliver_in_waves(net: CoreNetwork, count: int) -> None:
    """All requests in flight, then all responses, so that no replica is ahead."""
    for _ in range(count):
        net.settle()
        questions, net.wire = net.wire, []
        for question in questions:
            net.deliver(question)
        net.settle()
        answers, net.replies = net.replies, []
        for slot, body in answers:
            net.answer(slot, body)

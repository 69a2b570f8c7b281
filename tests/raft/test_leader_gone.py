"""Q9a, Q10, Q24: voters do not wait for a dead leader, and only briefly for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import ElectionState, PeerDown
from kraftlog.raft.roles.follower import STAGGER_MS
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    ELECTION_TIMEOUT_MS,
    SingleCore,
    follower_after_fetch,
    key,
    observer,
    sends,
    voters_of,
)

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore

#: The longest first backoff of a candidate that has lost.
FIRST_BACKOFF_MS = 100


def candidate_after_leader_death() -> SingleCore:
    """A candidate of epoch 6, as its leader 2 is dead."""
    context = follower_after_fetch()
    context.lose_peer(2)
    context.respond(3, context.vote_result())
    assert context.state == ("candidate", 6, -1, 1)
    return context


def test_q10_a_refused_candidate_does_not_wait_for_dead_voters() -> None:
    context = candidate_after_leader_death()
    context.respond(3, context.vote_result(False))
    assert context.ms_until("election") >= ELECTION_TIMEOUT_MS
    context.no_response(2)
    assert context.ms_until("election") <= FIRST_BACKOFF_MS


def test_q10_a_dead_voter_counts_at_its_next_failed_request() -> None:
    """Its previous failure came before the last refusal, when a majority could still grant."""
    context = candidate_after_leader_death()
    context.no_response(2)
    context.respond(3, context.vote_result(False))
    context.wait_for("ask 2")
    assert context.ms_until("election") >= ELECTION_TIMEOUT_MS - FIRST_BACKOFF_MS
    context.no_response(2)
    assert context.ms_until("election") <= FIRST_BACKOFF_MS


def test_q10_a_voter_that_seemed_dead_may_still_vote() -> None:
    """Of five, 2 led and is dead; 3 seemed dead, too, and has a request in flight."""
    context = follower_after_fetch(voters=voters_of(1, 2, 3, 4, 5))
    context.lose_peer(3)
    context.lose_peer(2)
    for peer in (4, 5):
        context.respond(peer, context.vote_result())
    assert context.role == "candidate"
    context.respond(5, context.vote_result(False))
    context.no_response(2)
    assert context.ms_until("election") >= ELECTION_TIMEOUT_MS
    context.respond(3, context.vote_result())
    context.respond(4, context.vote_result())
    assert context.role == "leader"


def test_q10_silence_alone_is_no_refusal() -> None:
    """3 has not responded, but there is no proof that it is dead."""
    context = candidate_after_leader_death()
    context.no_response(2)
    context.no_response(3)
    assert context.ms_until("election") >= ELECTION_TIMEOUT_MS


def test_p1_a_voter_that_still_follows_is_soon_asked_again() -> None:
    context = follower_after_fetch()
    context.lose_peer(2)
    context.respond(3, context.vote_result(False, leader_id=2))
    assert context.role == "prospective"
    assert context.ms_until("ask 3") <= context.core.config.retry_backoff_ms
    assert sends(context.wait_for("ask 3"))[3].pre_vote
    context.respond(3, context.vote_result())
    assert context.role == "candidate"


@pytest.mark.parametrize(("me", "turn"), [(1, 2), (3, 3)])
def test_q9a_a_lagging_voter_campaigns_last(me: int, turn: int) -> None:
    context = follower_after_fetch(me=key(me))
    context.step(PeerDown(2, this_replica_lags=True))
    context.wait(turn * STAGGER_MS - 1)
    assert context.role == "follower"
    context.wait(1)
    assert context.role == "prospective"


def test_q24_a_dead_peer_is_seldom_asked_for_the_leader() -> None:
    """Unless all peers are dead: then any of them may return first."""
    context = observer()
    context.lose_peer(2)
    context.lose_peer(4)
    asked = [next_asked_peer(context) for _ in range(40)]
    assert set(asked) == {2, 3, 4}
    assert asked.count(3) >= 24
    context.lose_peer(3)
    assert {next_asked_peer(context) for _ in range(20)} == {2, 3, 4}


def test_q24_an_observer_finds_a_leader_that_only_seemed_dead() -> None:
    """Only the leader's own response counts: voters that name it may not know that it is dead."""
    context = SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    context.lose_peer(2)
    from_other_voter = context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2)
    for _ in range(40):
        ((peer, _),) = sends(context.wait_for("discover")).items()
        if peer == 2:
            context.respond(2, context.fetch_result(leader_id=2))
            break
        context.respond(peer, from_other_voter)
    assert context.state == ("observer", 5, 2, -1)


def test_q24_a_leader_that_seemed_dead_and_is_no_known_voter_is_asked() -> None:
    """The observer's log is behind: it names one of the current voters, and not the leader."""
    context = SingleCore(ElectionState(5, -1), voters=voters_of(3))
    context.wait_for("discover")
    context.respond(3, context.fetch_result(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2))
    assert context.state == ("observer", 5, 2, -1)
    context.lose_peer(2)
    assert {next_asked_peer(context) for _ in range(40)} == {2, 3}


def next_asked_peer(context: SingleCore) -> int:
    """Return the next peer that the observer asks; the peer does not respond."""
    [peer] = sends(context.wait_for("discover"))
    context.no_response(peer)
    return peer


def test_q10_two_survivors_that_split_the_vote_elect_one_of_them_soon() -> None:
    """Each granted the other a pre-vote, as the first in turn campaigned late."""
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    dead = net.leader().me.id
    del net.hosts[dead]
    first, second = [host.core for host in net.hosts.values()]
    report_death(net, second, dead)
    net.now = net.now.replace(monotonic_ms=net.now.monotonic_ms + STAGGER_MS)
    second.poll(net.now)
    report_death(net, first, dead)
    assert (first.role.name, second.role.name) == ("prospective", "prospective")
    deliver_rounds(net, 2)
    assert (first.role.name, second.role.name) == ("candidate", "candidate")
    net.pass_time(3 * FIRST_BACKOFF_MS)
    assert {first.role.name, second.role.name} == {"leader", "follower"}


def report_death(net: CoreNetwork, core: RaftCore, dead: int) -> None:
    core.handle(PeerDown(dead), net.now)
    net.settle()


def deliver_rounds(net: CoreNetwork, count: int) -> None:
    """Deliver all requests in flight, then all responses, so that no replica is ahead."""
    for _ in range(count):
        net.settle()
        requests, net.wire = net.wire, []
        for request in requests:
            net.deliver(request)
        net.settle()
        replies, net.replies = net.replies, []
        for pending, body in replies:
            net.deliver_reply(pending, body)

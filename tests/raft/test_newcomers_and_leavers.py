"""Majorities, campaigns and the order of removals during voter changes: R3, R5, R7, Q6, Q24."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter
from kraftlog.raft.messages import ElectionState, EndEpoch, Vote
from kraftlog.raft.roles.follower import STAGGER_MS
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    SingleCore,
    batch,
    committed_leader,
    follower,
    key,
    sends,
    voters_of,
)


def test_q6_records_fetched_as_an_observer_do_not_count_as_a_voters() -> None:
    """Q6: an observer fetches before its flush, so its fetch acknowledges nothing."""
    context = committed_leader()
    context.propose("value")
    for _ in range(2):
        context.ask(context.fetch(4, max_wait_ms=0), channel=4)
    assert context.core.add_voter("add", Voter(key(4)), context.now) == ErrorCode.NONE
    context.step()
    context.ask(context.fetch(2, offset=12))
    assert context.core.log.high_watermark == 11, "two of four have the record on disk"
    context.ask(context.fetch(4, offset=13), channel=4)
    assert context.core.log.high_watermark == 12, (
        "4 has fetched as a voter, so its disk has the record"
    )


def test_r7_a_removed_voter_is_an_observer_once_that_is_committed() -> None:
    context = follower()
    removal = batch(10, 5, voters=voters_of(2, 3))
    context.respond(2, context.fetch_result(removal, high_watermark=10))
    assert context.role == "follower"
    context.respond(2, context.fetch_result(high_watermark=11))
    assert context.role == "observer"


def test_q9a_a_voter_being_removed_campaigns_last() -> None:
    context = follower()
    context.respond(
        2, context.fetch_result(batch(10, 5, voters=voters_of(2, 3, 4)), high_watermark=10)
    )
    context.lose_peer(2)
    assert context.role == "follower"
    assert context.ms_until("fetch timeout") == 2 * STAGGER_MS, "3 and 4 campaign before"


def prospective_with_removal() -> SingleCore:
    """A prospective voter whose log ends with its own removal, which may be uncommitted."""
    context = follower()
    context.respond(
        2, context.fetch_result(batch(10, 5, voters=voters_of(2, 3)), high_watermark=10)
    )
    context.wait(FETCH_TIMEOUT_MS)
    return context


def test_r5_a_voter_with_uncommitted_removal_does_not_count_itself() -> None:
    """Ongaro's thesis, 4.2.2: it campaigns, as its log may be the only one that can win."""
    context = prospective_with_removal()
    assert context.role == "prospective"
    context.respond(2, context.vote_result())
    assert context.role == "prospective", "one vote of two"
    context.respond(3, context.vote_result())
    assert context.role == "candidate"
    for peer in (2, 3):
        context.respond(peer, context.vote_result())
    assert context.role == "leader"
    for peer in (2, 3):
        context.ask(context.fetch(peer), channel=peer)
    assert context.core.log.high_watermark == context.core.log.end == 12
    assert context.role == "resigned", "winning commits its removal"
    context.wait(2 * ELECTION_TIMEOUT_MS)
    assert context.role == "observer"


def test_r5_a_removed_voter_campaigns_also_after_a_restart() -> None:
    """Q8: while its removal may be uncommitted, it starts as a voter."""
    context = SingleCore(ElectionState(5), voters=voters_of(1, 2, 3))
    context.core.log.voters.append(9, voters_of(2, 3))
    context.core.adapt_role()
    assert context.role == "unattached"
    context.core.log.high_watermark = 10
    context.core.adapt_role()
    assert context.role == "observer"


def test_r5_a_leader_resigns_once_a_voter_has_the_whole_log() -> None:
    """R5: before that, the other voter could not win the leader's vote, which it needs."""
    context = committed_leader(voters=voters_of(1, 2))
    assert context.core.reassign("leave", (2,), context.now) == ErrorCode.NONE
    context.step()
    context.propose("value")
    context.ask(context.fetch(2, offset=12))
    assert context.role == "leader", "the other voter lacks the value"
    assert context.propose("another") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    sent = sends(context.ask(context.fetch(2, offset=13)))
    assert context.role == "resigned"
    assert isinstance(sent[2], EndEpoch)


def test_r5_a_leader_to_be_removed_resigns_after_an_election_timeout() -> None:
    context = committed_leader(voters=voters_of(1, 2))
    context.core.reassign("leave", (2,), context.now)
    context.step()
    context.propose("value")
    context.ask(context.fetch(2, offset=12))
    context.wait(ELECTION_TIMEOUT_MS)
    assert context.role == "resigned"


def test_r2_a_new_target_keeps_a_leader_that_was_to_resign() -> None:
    context = committed_leader(voters=voters_of(1, 2))
    context.core.reassign("leave", (2,), context.now)
    context.step()
    context.propose("value")
    context.ask(context.fetch(2, offset=12))
    assert context.core.reassign("stay", (1, 2), context.now) == ErrorCode.NONE
    assert context.propose("another") == ErrorCode.NONE
    context.wait(ELECTION_TIMEOUT_MS)
    assert context.role == "leader"


def test_r3_a_silent_voter_is_removed_first() -> None:
    """R3, R12: otherwise the remaining voters might have no running majority."""
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    leader = net.leader()
    alive, dead = [core.me.id for core in (net.core(i) for i in (1, 2, 3)) if core is not leader]
    net.isolate(dead)
    net.pass_time(3000)
    leader.reassign("alone", (leader.me.id,), net.now)
    net.pass_time(1000)
    sets = [voters.ids for _, voters in leader.log.voters.entries]
    assert alive < dead
    assert tuple(sorted([alive, leader.me.id])) in sets
    assert sets[-1] == (leader.me.id,)


def test_q24_an_old_log_without_other_voters_does_not_end_the_search() -> None:
    """The log has a quorum of one, this id with another directory; settings name other voters."""
    context = SingleCore(
        ElectionState(5), voters=voters_of(1), me=ReplicaKey(1, b"another directory"[:16])
    )
    context.core.log.voters.base = voters_of(2, 3)  # those of the settings
    assert context.role == "observer"
    (peer,) = sends(context.wait_for("discover"))
    assert peer in {2, 3}


def test_r8_a_removed_voter_requests_votes_from_its_logs_voters() -> None:
    """R8: and from no other replica."""
    context = prospective_with_removal()
    assert {peer for peer in (1, 2, 3) if context.core.peer(peer).request} == {2, 3}
    assert isinstance(context.core.peer(2).request, Vote)


def test_r7_a_committed_removal_counts_before_a_later_uncommitted_target() -> None:
    """A replica with a committed removal does not campaign, whatever else changes."""
    context = follower()
    remaining_voters = voters_of(2, 3)
    removal = batch(10, 5, voters=remaining_voters)
    retargeting = batch(11, 5, voters=remaining_voters.replace(targets=(2,)))
    context.respond(2, context.fetch_result(removal, retargeting, high_watermark=10))
    assert context.role == "follower"
    context.respond(2, context.fetch_result(high_watermark=11))
    assert context.role == "observer"

"""Majorities, campaigns and the order of removals during voter changes: R3, R5, R7, Q6, Q24."""

from __future__ import annotations

from typing import Any

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.raft.messages import (
    ElectionState,
    EndEpoch,
    FetchResult,
    LogDurable,
    Reply,
    Send,
    Vote,
)
from kraftlog.raft.roles.follower import STAGGER_MS
from kraftlog.types import OffsetAndEpoch
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import (
    CONFIG,
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    SingleCore,
    batch,
    committed_leader,
    end_epoch,
    follower,
    key,
    of_kind,
    replies,
    sends,
    unattached,
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


def leader_of_removed_voter() -> tuple[SingleCore, ReplicaKey]:
    """A leader that has appended, but not committed, the removal of voter 3 at offset 11."""
    three = ReplicaKey(3, b"3" * 16)
    voters = VoterSet((Voter(key(1)), Voter(key(2)), Voter(three)))
    context = committed_leader(voters=voters)
    assert context.core.remove_voter("remove", three, context.now) == ErrorCode.NONE
    context.step()
    return context, three


def test_r7_a_removed_voter_learns_its_removal_from_one_fetch() -> None:
    """Q28: NOT_LEADER_OR_FOLLOWER from the leader itself, once, after the removal's commit."""
    context, three = leader_of_removed_voter()
    fetch = context.fetch(3, offset=11, max_wait_ms=0).replace(replica=three)
    (before,) = replies(context.ask(fetch, channel=3))
    assert before == FetchResult(0, 1, 5, 11, offset=11, limit=12)
    context.ask(context.fetch(2, offset=12))
    assert context.core.log.high_watermark == 12
    (refusal,) = replies(context.ask(fetch, channel=3))
    assert refusal == FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 5, 12, removed_at=11)
    (after,) = replies(context.ask(fetch, channel=3))
    assert after == FetchResult(0, 1, 5, 12, offset=11, limit=12)


def test_r7_a_replica_that_has_its_removal_or_never_voted_gets_records() -> None:
    context, three = leader_of_removed_voter()
    context.ask(context.fetch(2, offset=12))
    has_it = context.fetch(3, offset=12, last_epoch=context.core.log.last_epoch, max_wait_ms=0)
    (served,) = replies(context.ask(has_it.replace(replica=three), channel=3))
    assert served.error == ErrorCode.NONE
    for replica in (ReplicaKey(3, b"a new directory."), key(4)):
        fetch = context.fetch(4, offset=11, max_wait_ms=0).replace(replica=replica)
        (served,) = replies(context.ask(fetch, channel=replica))
        assert served.error == ErrorCode.NONE


def knows_its_removal(**options: Any) -> SingleCore:
    """A follower to which its leader has reported its removal, at offset 12."""
    context = follower(**options)
    context.respond(2, removal_at_12(context))
    return context


def removal_at_12(context: SingleCore, epoch: int = 5) -> FetchResult:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return context.fetch_result(error=error, epoch=epoch, removed_at=12)


def peers_in_flight(context: SingleCore) -> list[int]:
    return [peer_id for peer_id, peer in context.core.peers.items() if peer.request is not None]


def test_r7_a_reported_removal_makes_an_observer_that_fetches_on() -> None:
    """Its role changes, and nothing else: neither its epoch nor its vote, nor its voter set."""
    context = follower()
    fetch = context.core.peer(2).request
    (sent,) = context.respond(2, removal_at_12(context))
    assert (sent.peer, sent.body, sent.after) == (2, fetch, ())
    assert (context.role, context.core.is_voter) == ("observer", True)
    for record in (batch(10, 5, voters=voters_of(1, 2, 3, 4)), batch(11, 5)):
        context.respond(2, context.fetch_result(record))
    assert context.role == "observer", "older records than its removal change nothing"
    context.respond(2, context.fetch_result(batch(12, 5, voters=voters_of(2, 3, 4))))
    context.respond(2, context.fetch_result(high_watermark=13))
    assert context.role == "observer"


def test_r7_a_voter_without_a_leader_learns_its_removal_as_well() -> None:
    """It asks a voter that turns out to lead, in this epoch or in a newer one."""
    for epoch in (5, 6):
        context = unattached()
        context.wait_for("discover")
        (leader,) = peers_in_flight(context)
        context.respond(leader, removal_at_12(context, epoch).replace(leader_id=leader))
        assert context.state[:3] == ("observer", epoch, leader)


def test_r7_a_removed_voter_finds_a_leader_that_its_log_does_not_have() -> None:
    """Q32: like every observer it asks voters and bootstrap servers, again and again."""
    context = knows_its_removal(config=CONFIG.replace(bootstrap_ids=(-2,)))
    context.wait_for("fetch timeout")
    assert context.state[:3] == ("observer", 5, -1)
    asked = []
    for _ in range(30):
        context.wait(CONFIG.retry_backoff_max_ms)
        (peer,) = peers_in_flight(context)
        asked.append(peer)
        context.no_response(peer)
    assert set(asked) == {2, 3, -2}
    context.wait(CONFIG.retry_backoff_max_ms)
    (peer,) = peers_in_flight(context)
    unknown_leader = FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 6, -1)
    effects = context.respond(peer, unknown_leader)
    assert list(sends(effects)) == [7]
    assert context.state[:3] == ("observer", 6, 7)


def test_r7_a_removed_voter_votes_by_its_log_but_does_not_campaign() -> None:
    """R8: voters that were added after its removal may need its vote if it is added again."""
    context = knows_its_removal()
    context.wait_for("fetch timeout")
    context.ask(end_epoch(-1, 5, 1))
    assert context.role == "observer", "no successor"
    effects = context.ask(context.vote(3, epoch=6))
    (reply,) = of_kind(Reply, effects)
    assert reply.body.granted
    assert context.core.election == ElectionState(6, -1, key(3))
    context.wait(10 * ELECTION_TIMEOUT_MS)
    assert context.core.election == ElectionState(6, -1, key(3))


def test_r7_a_removed_voter_that_is_added_again_may_campaign() -> None:
    """By a record after its removal, committed or not; if that is truncated, no longer."""
    context = knows_its_removal()
    removal, addition = (
        batch(12, 5, voters=voters_of(2, 3)),
        batch(13, 5, voters=voters_of(1, 2, 3)),
    )
    context.respond(2, context.fetch_result(batch(10, 5, last=11), removal, high_watermark=10))
    assert context.role == "observer"
    context.respond(2, context.fetch_result(addition, high_watermark=10))
    assert context.role == "follower"
    context.respond(2, context.fetch_result(diverging=OffsetAndEpoch(13, 5), epoch=6))
    context.respond(2, context.fetch_result(diverging=OffsetAndEpoch(13, 5), epoch=6))
    assert context.role == "observer"


def test_r7_a_committed_log_without_the_removal_has_the_last_word() -> None:
    """No leader of a sound quorum has such a log; a repaired quorum may (kraftlog quorum repair).

    Until then it still flushes before each fetch, which a leader may count as a voter's (Q6).
    """
    context = knows_its_removal()
    effects = context.respond(2, context.fetch_result(batch(10, 5, last=12), high_watermark=12))
    (fetch,) = of_kind(Send, effects)
    assert fetch.after == (LogDurable(13),)
    assert context.role == "observer"
    context.respond(2, context.fetch_result(high_watermark=13))
    assert context.role == "follower"


def test_r7_only_the_leaders_own_refusal_removes_a_voter() -> None:
    """Kafka's resigned leader also names itself with this error, but reports no removal."""
    for response in (
        FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 5, -1),
        FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, 3, 5, -1, removed_at=12),
        FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 4, -1, removed_at=12),
        FetchResult(ErrorCode.INCONSISTENT_CLUSTER_ID, 2, 5, -1, removed_at=12),
        FetchResult(ErrorCode.NONE, 2, 5, -1, removed_at=12),
    ):
        context = follower()
        context.respond(2, response)
        assert (context.role, context.core.removed_at) == ("follower", -1), response


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

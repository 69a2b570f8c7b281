"""Who counts, who stands and who goes first while voters come and go: R3, R5, R7, Q6, Q24."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter
from kraftlog.raft.messages import ElectionState, End, Vote
from kraftlog.raft.roles.follower import TURN_MS
from tests.raft.solo import (
    ELECTION,
    FETCH,
    Solo,
    batch,
    committed_leader,
    follower,
    key,
    sends,
    voters_of,
)
from tests.raft.trio import Net


def test_q6_records_fetched_as_an_observer_do_not_count_as_a_voters() -> None:
    """Q6: an observer fetches on before its disk is done, so its fetch acknowledges nothing."""
    solo = committed_leader()
    solo.propose("value")
    for _ in range(2):
        solo.ask(solo.fetch(4, max_wait_ms=0), channel=4)
    assert solo.core.add_voter("add", Voter(key(4)), solo.now) == ErrorCode.NONE
    solo.step()
    solo.ask(solo.fetch(2, offset=12))
    assert solo.core.log.high_watermark == 11, "two of four, and one that may yet lose it"
    solo.ask(solo.fetch(4, offset=13), channel=4)
    assert solo.core.log.high_watermark == 12, "it has the record that made it a voter, on disk"


def test_r7_a_removed_voter_is_an_observer_once_that_is_committed() -> None:
    solo = follower()
    removal = batch(10, 5, voters=voters_of(2, 3))
    solo.answer(2, solo.fetched(removal, high_watermark=10))
    assert solo.role == "follower"
    solo.answer(2, solo.fetched(high_watermark=11))
    assert solo.role == "observer"


def test_q9a_when_the_leader_dies_who_is_being_removed_stands_last() -> None:
    solo = follower()
    solo.answer(2, solo.fetched(batch(10, 5, voters=voters_of(2, 3, 4)), high_watermark=10))
    solo.gone(2)
    assert solo.role == "follower"
    assert solo.in_ms("fetch timeout") == 2 * TURN_MS, "after 3 and 4"


def removed_and_alone() -> Solo:
    """Its log holds its own removal; whether that is committed is not known."""
    solo = follower()
    solo.answer(2, solo.fetched(batch(10, 5, voters=voters_of(2, 3)), high_watermark=10))
    solo.wait(FETCH)
    return solo


def test_r5_a_voter_with_uncommitted_removal_stands_without_its_own_vote() -> None:
    """Ongaro's thesis, 4.2.2: its log may be the only one that can win."""
    solo = removed_and_alone()
    assert solo.role == "prospective"
    solo.answer(2, solo.voted())
    assert solo.role == "prospective", "one of two"
    solo.answer(3, solo.voted())
    assert solo.role == "candidate"
    for peer in (2, 3):
        solo.answer(peer, solo.voted())
    assert solo.role == "leader"
    for peer in (2, 3):
        solo.ask(solo.fetch(peer), channel=peer)
    assert solo.core.log.high_watermark == solo.core.log.end == 12
    assert solo.role == "resigned", "its removal is committed"
    solo.wait(2 * ELECTION)
    assert solo.role == "observer"


def test_r5_after_a_restart_too() -> None:
    """Q8: a removal that may not be committed leaves the role of a voter."""
    solo = Solo(ElectionState(5), voters=voters_of(1, 2, 3))
    solo.core.log.voters.append(9, voters_of(2, 3))
    solo.core.settle_voters()
    assert solo.role == "unattached"
    solo.core.log.high_watermark = 10
    solo.core.settle_voters()
    assert solo.role == "observer"


def test_r5_a_leader_hands_over_to_somebody_who_holds_everything() -> None:
    """R5: of two voters the other is elected only with the whole log."""
    solo = committed_leader(voters=voters_of(1, 2))
    assert solo.core.reassign("leave", (2,), solo.now) == ErrorCode.NONE
    solo.step()
    solo.propose("value")
    solo.ask(solo.fetch(2, offset=12))
    assert solo.role == "leader", "the other lacks the value"
    assert solo.propose("another") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = sends(solo.ask(solo.fetch(2, offset=13)))
    assert solo.role == "resigned"
    assert isinstance(told[2], End)


def test_r5_it_does_not_wait_for_long() -> None:
    solo = committed_leader(voters=voters_of(1, 2))
    solo.core.reassign("leave", (2,), solo.now)
    solo.step()
    solo.propose("value")
    solo.ask(solo.fetch(2, offset=12))
    solo.wait(ELECTION)
    assert solo.role == "resigned"


def test_r2_a_new_target_ends_the_waiting() -> None:
    solo = committed_leader(voters=voters_of(1, 2))
    solo.core.reassign("leave", (2,), solo.now)
    solo.step()
    solo.propose("value")
    solo.ask(solo.fetch(2, offset=12))
    assert solo.core.reassign("stay", (1, 2), solo.now) == ErrorCode.NONE
    assert solo.propose("another") == ErrorCode.NONE
    solo.wait(ELECTION)
    assert solo.role == "leader"


def test_r3_a_silent_voter_is_removed_first() -> None:
    """R3, R12: else the voters that are left might lack a majority that is there."""
    net = Net(1, 2, 3)
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
    """A replaced disk reads of a quorum of one, which it was; it had been told of others."""
    solo = Solo(ElectionState(5), voters=voters_of(1), me=ReplicaKey(1, b"another directory"[:16]))
    solo.core.log.voters.base = voters_of(2, 3)
    assert solo.role == "observer"
    (asked,) = sends(solo.wait_for("discover"))
    assert asked in {2, 3}


def test_r8_the_removed_asks_the_voters_of_its_log() -> None:
    """R8: and nobody else."""
    solo = removed_and_alone()
    assert {peer for peer in (1, 2, 3) if solo.core.peer(peer).asked} == {2, 3}
    assert isinstance(solo.core.peer(2).asked, Vote)


def test_r7_a_committed_removal_counts_before_a_later_uncommitted_target() -> None:
    """Whoever was removed for certain stands no more, whatever else changes."""
    solo = follower()
    without_it = voters_of(2, 3)
    removed = batch(10, 5, voters=without_it)
    moved = batch(11, 5, voters=without_it.replace(targets=(2,)))
    solo.answer(2, solo.fetched(removed, moved, high_watermark=10))
    assert solo.role == "follower"
    solo.answer(2, solo.fetched(high_watermark=11))
    assert solo.role == "observer"

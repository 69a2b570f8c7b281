"""Halves of rules that are easily left out: each test here dies of one deleted clause."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Voter
from kraftlog.raft.messages import (
    Answered,
    Append,
    Begin,
    BeginAnswer,
    ClusterIdKnown,
    ElectionDurable,
    ElectionPersisted,
    ElectionState,
    Proposed,
    ReadOffsetAnswer,
    SnapshotTaken,
    Stop,
)
from kraftlog.types import OffsetAndEpoch
from tests.raft.solo import (
    FETCH,
    Solo,
    batch,
    committed_leader,
    end_of,
    follower,
    key,
    leader,
    loyal,
    of,
    prospective,
    read,
    replies,
    sends,
    unattached,
    voters_of,
)

FIVE = voters_of(1, 2, 3, 4, 5)


def acknowledge(solo: Solo, by: int, behind: int = 0) -> list[Any]:
    """A fetch of a voter that has all but the last records, and waits for nothing."""
    offset = solo.core.log.end - behind
    epoch = solo.core.log.epochs.epoch_at(offset - 1)
    return solo.ask(solo.fetch(by, offset=offset, last_epoch=epoch, max_wait_ms=0), channel=by)


def read_answers(effects: list[Any]) -> list[Any]:
    return [body for body in replies(effects) if isinstance(body, ReadOffsetAnswer)]


# Elections -----------------------------------------------------------------------------------


def test_q2_no_role_begins_in_an_older_epoch() -> None:
    solo = follower()
    with pytest.raises(AssertionError, match="can't become 4"):
        solo.core.become("observer", ElectionState(4))


def test_q3_a_write_that_was_overtaken_makes_nothing_durable() -> None:
    solo = unattached(slow_disk=True)
    solo.ask(solo.vote(2, epoch=6))
    older, newest = solo.unpersisted[-2:]
    solo.step(ElectionPersisted(newest))
    solo.step(ElectionPersisted(older))
    assert solo.core.durable_election() == ()
    solo.ask(solo.vote(3, epoch=7))
    older, newest = solo.unpersisted[-2:]
    solo.step(ElectionPersisted(older))
    assert solo.core.durable_election() == (ElectionDurable(newest),)


def test_q8_a_leader_that_restarts_names_no_leader() -> None:
    solo = Solo(ElectionState(5, 1, key(1)))
    assert solo.state == ("resigned", 5, -1, 1)
    assert solo.asked(solo.fetch(2)).leader_id == -1


def test_p2_a_follower_whose_leader_is_gone_grants_a_pre_vote() -> None:
    """It is not the first in turn to stand itself; an answer of the leader changes its mind."""
    solo = loyal(me=key(3))
    solo.gone(2)
    assert solo.role == "follower"
    assert solo.asked(solo.vote(1, pre_vote=True)).granted


def test_q9a_a_leader_that_seemed_gone_and_answers_is_heard() -> None:
    solo = loyal(me=key(3))
    solo.gone(2)
    solo.answer(2, solo.fetched())
    assert not solo.asked(solo.vote(1, pre_vote=True)).granted


def test_q9a_a_peer_that_seemed_gone_and_fetches_is_there() -> None:
    solo = leader()
    solo.gone(2)
    assert solo.core.peer(2).gone
    acknowledge(solo, 2)
    assert not solo.core.peer(2).gone


def lost_once() -> Solo:
    """Its pre-vote was refused by all."""
    solo = prospective()
    for peer in (2, 3):
        solo.answer(peer, solo.voted(False))
    assert solo.core.attempt == 1
    return solo


def test_q10_a_leader_ends_the_row_of_failed_attempts() -> None:
    solo = lost_once()
    solo.ask(solo.begin(2, 5))
    assert (solo.role, solo.core.attempt) == ("follower", 0)


def test_q10_winning_ends_the_row_of_failed_attempts() -> None:
    solo = lost_once()
    solo.wait_for("election")
    solo.answer(2, solo.voted())
    assert (solo.role, solo.core.attempt) == ("candidate", 1)
    solo.answer(2, solo.voted())
    assert (solo.role, solo.core.attempt) == ("leader", 0)


def test_q13_a_candidate_that_was_beaten_does_not_win_by_late_votes() -> None:
    """Of five, two refuse and 2 is gone; then 5 grants, and 2 is back and grants, too."""
    solo = loyal(voters=FIVE)
    solo.gone(2)
    for peer in (3, 4):
        solo.answer(peer, solo.voted())
    assert solo.role == "candidate"
    for peer in (3, 4):
        solo.answer(peer, solo.voted(False))
    solo.unanswered(2)
    solo.core.timers["election"] = solo.core.timers["ask 2"] + 1
    solo.wait_for("ask 2")
    for peer in (5, 2):
        solo.answer(peer, solo.voted())
    assert solo.role == "candidate"
    solo.wait_for("election")
    assert solo.role == "prospective"


def test_q15_a_voter_that_answered_is_not_told_again() -> None:
    """3 has answered and not fetched; a new set of voters makes the leader look whom to tell."""
    solo = leader()
    for peer in (2, 3):
        solo.answer(peer, BeginAnswer(0, 1, 5))
    acknowledge(solo, 2)
    for _ in range(2):
        acknowledge(solo, 4)
    assert solo.core.add_voter("add", Voter(key(4)), solo.now) == ErrorCode.NONE
    told = {peer: type(body) for peer, body in sends(solo.step()).items()}
    assert told == {4: Begin}


def test_q15_a_voter_that_was_removed_is_not_told_any_more() -> None:
    solo = committed_leader(voters=voters_of(1, 2, 3, 4))
    solo.core.role.endorsed = (2, 3)  # type: ignore[attr-defined]  # it leads
    solo.unanswered(4)
    assert "tell 4" in solo.core.timers
    assert solo.core.remove_voter("remove", key(4), solo.now) == ErrorCode.NONE
    solo.step()
    assert 4 not in sends(solo.wait_for("tell 4"))


def test_q17_a_replica_whose_removal_is_in_its_log_does_not_succeed() -> None:
    """Uncommitted: it may stand when nobody else can, but not before the others."""
    solo = follower()
    solo.answer(2, solo.fetched(batch(10, 5, voters=voters_of(2, 3))))
    assert solo.core.may_stand
    solo.ask(end_of(2, 5, 1))
    assert solo.state == ("follower", 5, 2, -1)


def test_q24_a_voter_without_a_leader_goes_on_asking_who_does_not_answer() -> None:
    solo = unattached()
    for _ in range(3):
        ((peer, _),) = sends(solo.wait_for("discover")).items()
        solo.unanswered(peer)
        assert "discover" in solo.core.timers


def test_q19_an_answer_to_a_fetch_that_was_given_up_cuts_nothing() -> None:
    """While a newer one is in flight; what it says was true when it was sent."""
    solo = loyal()
    late = solo.core.peer(2).in_flight
    solo.unanswered(2)
    assert sends(solo.wait_for("fetch"))[2].offset == 10
    diverging = solo.fetched(diverging=OffsetAndEpoch(5, 1))
    assert solo.step(Answered(2, late, diverging)) == []
    assert solo.core.log.end == 10
    solo.answer(2, diverging)
    assert solo.core.log.end == 5


# Reads ---------------------------------------------------------------------------------------


def test_p5_a_leader_that_removed_itself_is_no_proof() -> None:
    """Voters 2, 3, 4 are left: two of them must show that they follow."""
    solo = committed_leader(voters=voters_of(1, 2, 3, 4))
    assert solo.core.remove_voter("remove", key(1), solo.now) == ErrorCode.NONE
    solo.step()
    for peer in (2, 3, 4):
        acknowledge(solo, peer, behind=1)
    solo.ask(read(), channel="client")
    acknowledge(solo, 2, behind=1)
    assert read_answers(acknowledge(solo, 2, behind=1)) == []
    acknowledge(solo, 3, behind=1)
    assert read_answers(acknowledge(solo, 3, behind=1)) == [ReadOffsetAnswer(0, 1, 5, 11)]


def test_p5_what_is_not_committed_is_not_read() -> None:
    solo = committed_leader()
    solo.propose("a")
    solo.step()
    acknowledge(solo, 2, behind=1)
    solo.ask(read(), channel="client")
    acknowledge(solo, 2, behind=1)
    assert read_answers(acknowledge(solo, 2, behind=1)) == [ReadOffsetAnswer(0, 1, 5, 11)]
    assert solo.core.log.end == 12


# Voters --------------------------------------------------------------------------------------


def test_r1_a_replica_whose_vote_is_cut_off_its_log_is_an_observer_again() -> None:
    solo = Solo(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    solo.answer(2, solo.fetched(batch(10, 5, voters=voters_of(1, 2, 3, 4))))
    assert solo.role == "follower"
    solo.ask(solo.begin(3, 6))
    solo.answer(3, solo.fetched(diverging=OffsetAndEpoch(10, 1)))
    assert solo.role == "observer"


def test_r2_the_same_target_again_is_answered_when_its_record_is_committed() -> None:
    solo = committed_leader()
    for slot in ("once", "again"):
        assert solo.core.reassign(slot, (1, 2), solo.now) == ErrorCode.NONE
        assert of(Proposed, solo.step()) == []
    told = [done.slot for done in of(Proposed, acknowledge(solo, 2))]
    assert told == ["once", "again"]


def test_r2_the_last_voter_is_not_removed() -> None:
    solo = committed_leader(voters=voters_of(1))
    assert solo.core.remove_voter("remove", key(1), solo.now) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("change", ["reassign", "add_voter", "remove_voter", "update_voter"])
def test_r2_only_a_leader_changes_the_voters(change: str) -> None:
    solo = follower()
    what: Any = {"reassign": (1, 2), "remove_voter": key(3)}.get(change, Voter(key(4)))
    error = getattr(solo.core, change)("slot", what, solo.now)
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_r3_a_voter_that_is_added_is_told_who_leads() -> None:
    solo = committed_leader()
    for _ in range(2):
        acknowledge(solo, 4)
    assert solo.core.add_voter("add", Voter(key(4)), solo.now) == ErrorCode.NONE
    assert isinstance(sends(solo.step())[4], Begin)


def test_r5_a_leader_that_removed_itself_leads_until_that_is_committed() -> None:
    """An earlier record is committed first."""
    solo = committed_leader()
    solo.propose("a")
    solo.step()
    assert solo.core.remove_voter("remove", key(1), solo.now) == ErrorCode.NONE
    solo.step()
    for peer in (2, 3):
        acknowledge(solo, peer, behind=1)
    assert (solo.role, solo.core.log.high_watermark) == ("leader", 12)
    for peer in (2, 3):
        if solo.role == "leader":
            acknowledge(solo, peer)
    assert solo.role == "resigned"


def test_r6_a_sole_voter_that_is_left_ends_the_walk_by_its_own_flush() -> None:
    """No replica fetches from it any more."""
    solo = committed_leader(voters=voters_of(1, 2))
    assert solo.core.reassign("walk", (1,), solo.now) == ErrorCode.NONE
    solo.step()
    acknowledge(solo, 2)
    assert solo.core.log.voter_set.ids == (1,)
    assert solo.core.log.voter_set.targets is None


# Clusters ------------------------------------------------------------------------------------


def test_r11_the_first_record_of_a_cluster_says_who_votes() -> None:
    """The host writes it down from the payload."""
    solo = unattached(voters=voters_of(1), end=0)
    (append, *_) = of(Append, solo.first)
    assert append.batch.voters is not None
    assert append.batch.voters.cluster_id == "cluster"
    assert append.batch.payload.voters == append.batch.voters


def test_r11_a_log_behind_a_snapshot_is_not_that_of_a_new_cluster() -> None:
    """Its voters are in the snapshot, and not in the log any more."""
    solo = committed_leader()
    solo.step(SnapshotTaken(OffsetAndEpoch(11, 5)))
    assert solo.core.log.voters.latest_offset == -1
    solo.ask(solo.begin(2, 6))
    solo.wait_for("fetch timeout")
    solo.answer(3, solo.voted())
    (append,) = of(Append, solo.answer(3, solo.voted()))
    assert solo.role == "leader"
    assert append.batch.voters is None


def test_q29_an_id_that_is_not_committed_is_not_kept() -> None:
    """Other records are committed meanwhile."""
    solo = follower(cluster_id=None)
    named = voters_of(1, 2, 3).replace(cluster_id="new")
    effects = solo.answer(2, solo.fetched(batch(10, 5, voters=named), high_watermark=5))
    assert solo.core.log.high_watermark == 5
    assert of(ClusterIdKnown, effects) == []
    assert solo.core.cluster_id is None


def test_q31_another_cluster_on_a_vote_is_a_refusal_even_by_a_leader() -> None:
    solo = prospective()
    mismatch = ErrorCode.INCONSISTENT_CLUSTER_ID
    effects = solo.answer(2, solo.voted(False, error=mismatch, leader_id=2))
    assert of(Stop, effects) == []
    assert solo.role == "prospective"


# Snapshots -----------------------------------------------------------------------------------


def test_q38_an_older_snapshot_than_the_logs_start_changes_nothing() -> None:
    solo = committed_leader()
    solo.step(SnapshotTaken(OffsetAndEpoch(11, 5)))
    assert solo.step(SnapshotTaken(OffsetAndEpoch(5, 1))) == []
    assert solo.core.log.start == 11


def test_q38_a_fetch_that_gets_a_snapshots_id_is_a_sign_of_life() -> None:
    """Q11: a voter that is far behind follows its leader all the same."""
    solo = committed_leader()
    solo.step(SnapshotTaken(OffsetAndEpoch(11, 5)))
    solo.wait(FETCH)
    assert solo.asked(solo.fetch(2, offset=0, last_epoch=0)).snapshot == OffsetAndEpoch(11, 5)
    solo.wait(FETCH)
    assert solo.role == "leader"
    solo.wait(FETCH)
    assert solo.role == "resigned"

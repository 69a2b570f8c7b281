"""Edge cases of the rules: each test fails if one clause of the code is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Voter
from kraftlog.raft.messages import (
    Append,
    BeginEpoch,
    BeginEpochResult,
    ClusterIdKnown,
    ElectionDurable,
    ElectionPersisted,
    ElectionState,
    Proposed,
    ReadOffsetResult,
    Response,
    SnapshotTaken,
    Stop,
)
from kraftlog.types import OffsetAndEpoch
from tests.raft.single_core import (
    FETCH_TIMEOUT_MS,
    SingleCore,
    batch,
    committed_leader,
    end_epoch,
    follower,
    follower_after_fetch,
    key,
    leader,
    of_kind,
    prospective,
    read_offset,
    replies,
    sends,
    unattached,
    voters_of,
)

FIVE = voters_of(1, 2, 3, 4, 5)


def acknowledge(context: SingleCore, by: int, behind: int = 0) -> list[Any]:
    """Handle the fetch of a voter that lacks the last `behind` records, and does not wait."""
    offset = context.core.log.end - behind
    epoch = context.core.log.epochs.epoch_at(offset - 1)
    return context.ask(
        context.fetch(by, offset=offset, last_epoch=epoch, max_wait_ms=0), channel=by
    )


def read_results(effects: list[Any]) -> list[Any]:
    return [body for body in replies(effects) if isinstance(body, ReadOffsetResult)]


# Elections ---------------------------------------------------------------------------------------


def test_q2_no_role_begins_in_an_older_epoch() -> None:
    context = follower()
    with pytest.raises(AssertionError, match="can't become 4"):
        context.core.become("observer", ElectionState(4))


def test_q3_an_overtaken_write_makes_nothing_durable() -> None:
    context = unattached(slow_disk=True)
    context.ask(context.vote(2, epoch=6))
    older, newest = context.unpersisted[-2:]
    context.step(ElectionPersisted(newest))
    context.step(ElectionPersisted(older))
    assert context.core.durable_election() == ()
    context.ask(context.vote(3, epoch=7))
    older, newest = context.unpersisted[-2:]
    context.step(ElectionPersisted(older))
    assert context.core.durable_election() == (ElectionDurable(newest),)


def test_q8_a_leader_that_restarts_names_no_leader() -> None:
    context = SingleCore(ElectionState(5, 1, key(1)))
    assert context.state == ("resigned", 5, -1, 1)
    assert context.response_to(context.fetch(2)).leader_id == -1


def test_p2_a_follower_whose_leader_is_dead_grants_a_pre_vote() -> None:
    """It does not campaign yet itself: voter 1 goes first, as it has the lower id."""
    context = follower_after_fetch(me=key(3))
    context.lose_peer(2)
    assert context.role == "follower"
    assert context.response_to(context.vote(1, pre_vote=True)).granted


def test_q9a_a_leader_that_seemed_dead_is_alive_after_its_response() -> None:
    context = follower_after_fetch(me=key(3))
    context.lose_peer(2)
    context.respond(2, context.fetch_result())
    assert not context.response_to(context.vote(1, pre_vote=True)).granted


def test_q9a_a_peer_that_seemed_dead_is_alive_after_its_fetch() -> None:
    context = leader()
    context.lose_peer(2)
    assert context.core.peer(2).is_down
    acknowledge(context, 2)
    assert not context.core.peer(2).is_down


def refused_once() -> SingleCore:
    """A replica whose pre-vote all voters refused."""
    context = prospective()
    for peer in (2, 3):
        context.respond(peer, context.vote_result(False))
    assert context.core.attempt == 1
    return context


def test_q10_following_a_leader_resets_failed_attempts() -> None:
    context = refused_once()
    context.ask(context.begin_epoch(2, 5))
    assert (context.role, context.core.attempt) == ("follower", 0)


def test_q10_winning_resets_failed_attempts() -> None:
    context = refused_once()
    context.wait_for("election")
    context.respond(2, context.vote_result())
    assert (context.role, context.core.attempt) == ("candidate", 1)
    context.respond(2, context.vote_result())
    assert (context.role, context.core.attempt) == ("leader", 0)


def test_q13_a_beaten_candidate_does_not_win_by_late_votes() -> None:
    """Of five, two refuse and 2 is dead; then 5 grants, and 2 returns and grants, too."""
    context = follower_after_fetch(voters=FIVE)
    context.lose_peer(2)
    for peer in (3, 4):
        context.respond(peer, context.vote_result())
    assert context.role == "candidate"
    for peer in (3, 4):
        context.respond(peer, context.vote_result(False))
    context.no_response(2)
    context.core.timers["election"] = context.core.timers["ask 2"] + 1
    context.wait_for("ask 2")
    for peer in (5, 2):
        context.respond(peer, context.vote_result())
    assert context.role == "candidate"
    context.wait_for("election")
    assert context.role == "prospective"


def test_q15_a_voter_that_answered_gets_no_second_announcement() -> None:
    """3 has responded but not fetched when a voter change makes the leader notify voters again."""
    context = leader()
    for peer in (2, 3):
        context.respond(peer, BeginEpochResult(0, 1, 5))
    acknowledge(context, 2)
    for _ in range(2):
        acknowledge(context, 4)
    assert context.core.add_voter("add", Voter(key(4)), context.now) == ErrorCode.NONE
    sent = {peer: type(body) for peer, body in sends(context.step()).items()}
    assert sent == {4: BeginEpoch}


def test_q15_a_removed_voter_gets_no_further_announcement() -> None:
    context = committed_leader(voters=voters_of(1, 2, 3, 4))
    context.core.role.acknowledged_by = (2, 3)  # type: ignore[attr-defined]  # its role is Leader
    context.no_response(4)
    assert "begin-epoch 4" in context.core.timers
    assert context.core.remove_voter("remove", key(4), context.now) == ErrorCode.NONE
    context.step()
    assert 4 not in sends(context.wait_for("begin-epoch 4"))


def test_q17_a_replica_removed_in_its_log_is_no_successor() -> None:
    """Its removal is uncommitted: it may campaign, but not before the other voters."""
    context = follower()
    context.respond(2, context.fetch_result(batch(10, 5, voters=voters_of(2, 3))))
    assert context.core.may_campaign
    context.ask(end_epoch(2, 5, 1))
    assert context.state == ("follower", 5, 2, -1)


def test_q24_an_unattached_voter_retries_silent_peers() -> None:
    context = unattached()
    for _ in range(3):
        ((peer, _),) = sends(context.wait_for("discover")).items()
        context.no_response(peer)
        assert "discover" in context.core.timers


def test_q19_a_response_to_an_abandoned_fetch_truncates_nothing() -> None:
    """The response was correct when it was sent, but a newer request is in flight."""
    context = follower_after_fetch()
    abandoned = context.core.peer(2).in_flight
    context.no_response(2)
    assert sends(context.wait_for("fetch"))[2].offset == 10
    diverging = context.fetch_result(diverging=OffsetAndEpoch(5, 1))
    assert context.step(Response(2, abandoned, diverging)) == []
    assert context.core.log.end == 10
    context.respond(2, diverging)
    assert context.core.log.end == 5


# Reads -------------------------------------------------------------------------------------------


def test_p5_a_removed_leader_does_not_count_itself() -> None:
    """Of the remaining voters 2, 3 and 4, two must prove that they follow."""
    context = committed_leader(voters=voters_of(1, 2, 3, 4))
    assert context.core.remove_voter("remove", key(1), context.now) == ErrorCode.NONE
    context.step()
    for peer in (2, 3, 4):
        acknowledge(context, peer, behind=1)
    context.ask(read_offset(), channel="client")
    acknowledge(context, 2, behind=1)
    assert read_results(acknowledge(context, 2, behind=1)) == []
    acknowledge(context, 3, behind=1)
    assert read_results(acknowledge(context, 3, behind=1)) == [ReadOffsetResult(0, 1, 5, 11)]


def test_p5_uncommitted_records_are_not_read() -> None:
    context = committed_leader()
    context.propose("a")
    context.step()
    acknowledge(context, 2, behind=1)
    context.ask(read_offset(), channel="client")
    acknowledge(context, 2, behind=1)
    assert read_results(acknowledge(context, 2, behind=1)) == [ReadOffsetResult(0, 1, 5, 11)]
    assert context.core.log.end == 12


# Voters ------------------------------------------------------------------------------------------


def test_r1_truncating_its_own_addition_makes_a_voter_an_observer() -> None:
    context = SingleCore(ElectionState(5, 2), voters=voters_of(2, 3, 4))
    context.respond(2, context.fetch_result(batch(10, 5, voters=voters_of(1, 2, 3, 4))))
    assert context.role == "follower"
    context.ask(context.begin_epoch(3, 6))
    context.respond(3, context.fetch_result(diverging=OffsetAndEpoch(10, 1)))
    assert context.role == "observer"


def test_r2_a_repeated_target_completes_with_its_record() -> None:
    context = committed_leader()
    for pending in ("once", "again"):
        assert context.core.reassign(pending, (1, 2), context.now) == ErrorCode.NONE
        assert of_kind(Proposed, context.step()) == []
    completed = [proposal.pending for proposal in of_kind(Proposed, acknowledge(context, 2))]
    assert completed == ["once", "again"]


def test_r2_the_last_voter_is_not_removed() -> None:
    context = committed_leader(voters=voters_of(1))
    assert context.core.remove_voter("remove", key(1), context.now) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("change", ["reassign", "add_voter", "remove_voter", "update_voter"])
def test_r2_only_a_leader_changes_the_voters(change: str) -> None:
    context = follower()
    argument: Any = {"reassign": (1, 2), "remove_voter": key(3)}.get(change, Voter(key(4)))
    error = getattr(context.core, change)("pending", argument, context.now)
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_r3_the_leader_announces_itself_to_an_added_voter() -> None:
    context = committed_leader()
    for _ in range(2):
        acknowledge(context, 4)
    assert context.core.add_voter("add", Voter(key(4)), context.now) == ErrorCode.NONE
    assert isinstance(sends(context.step())[4], BeginEpoch)


def test_r5_a_leader_that_removed_itself_leads_until_that_is_committed() -> None:
    """An earlier record is committed first."""
    context = committed_leader()
    context.propose("a")
    context.step()
    assert context.core.remove_voter("remove", key(1), context.now) == ErrorCode.NONE
    context.step()
    for peer in (2, 3):
        acknowledge(context, peer, behind=1)
    assert (context.role, context.core.log.high_watermark) == ("leader", 12)
    for peer in (2, 3):
        if context.role == "leader":
            acknowledge(context, peer)
    assert context.role == "resigned"


def test_r6_the_last_voter_ends_a_reassignment_by_its_own_flush() -> None:
    """No other replica has to fetch for the commit."""
    context = committed_leader(voters=voters_of(1, 2))
    assert context.core.reassign("walk", (1,), context.now) == ErrorCode.NONE
    context.step()
    acknowledge(context, 2)
    assert context.core.log.voter_set.ids == (1,)
    assert context.core.log.voter_set.targets is None


# Clusters ----------------------------------------------------------------------------------------


def test_r11_a_clusters_first_batch_records_the_voters() -> None:
    """The host writes the voters record from the payload."""
    context = unattached(voters=voters_of(1), end=0)
    (append, *_) = of_kind(Append, context.start_effects)
    assert append.batch.voters is not None
    assert append.batch.voters.cluster_id == "cluster"
    assert append.batch.payload.voters == append.batch.voters


def test_r11_after_a_snapshot_a_new_leader_records_no_voters() -> None:
    """The snapshot has the voters, and the log no longer has them."""
    context = committed_leader()
    context.step(SnapshotTaken(OffsetAndEpoch(11, 5)))
    assert context.core.log.voters.latest_offset == -1
    context.ask(context.begin_epoch(2, 6))
    context.wait_for("fetch timeout")
    context.respond(3, context.vote_result())
    (append,) = of_kind(Append, context.respond(3, context.vote_result()))
    assert context.role == "leader"
    assert append.batch.voters is None


def test_q29_an_uncommitted_cluster_id_is_not_stored() -> None:
    """The high watermark is below the voters record, which names the id."""
    context = follower(cluster_id=None)
    voters = voters_of(1, 2, 3).replace(cluster_id="new")
    effects = context.respond(
        2, context.fetch_result(batch(10, 5, voters=voters), high_watermark=5)
    )
    assert context.core.log.high_watermark == 5
    assert of_kind(ClusterIdKnown, effects) == []
    assert context.core.cluster_id is None


def test_q31_a_vote_refused_by_a_leader_of_another_cluster_stops_no_node() -> None:
    context = prospective()
    mismatch = ErrorCode.INCONSISTENT_CLUSTER_ID
    effects = context.respond(2, context.vote_result(False, error=mismatch, leader_id=2))
    assert of_kind(Stop, effects) == []
    assert context.role == "prospective"


# Snapshots ---------------------------------------------------------------------------------------


def test_q38_a_snapshot_older_than_the_logs_start_changes_nothing() -> None:
    context = committed_leader()
    context.step(SnapshotTaken(OffsetAndEpoch(11, 5)))
    assert context.step(SnapshotTaken(OffsetAndEpoch(5, 1))) == []
    assert context.core.log.start == 11


def test_q38_a_voter_that_needs_a_snapshot_counts_as_following() -> None:
    """Q11: the leader does not resign, however far its only fetching voter lags."""
    context = committed_leader()
    context.step(SnapshotTaken(OffsetAndEpoch(11, 5)))
    context.wait(FETCH_TIMEOUT_MS)
    assert context.response_to(context.fetch(2, offset=0, last_epoch=0)).snapshot == OffsetAndEpoch(
        11, 5
    )
    context.wait(FETCH_TIMEOUT_MS)
    assert context.role == "leader"
    context.wait(FETCH_TIMEOUT_MS)
    assert context.role == "resigned"

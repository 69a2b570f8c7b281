"""Leaders in rare situations: outside the voter set, during voter changes, resigning."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Voter
from kraftlog.raft.messages import Append, EndEpoch, Proposed, SnapshotFetch
from kraftlog.types import OffsetAndEpoch
from tests.raft.faulty_core_network import FaultyNetwork
from tests.raft.single_core import (
    CHECK_QUORUM_TIMEOUT_MS,
    CONFIG,
    SingleCore,
    committed_leader,
    follower_after_fetch,
    key,
    leader,
    observer,
    of_kind,
    replies,
    resigned,
    sends,
    unattached,
    voters_of,
)


def catch_up(context: SingleCore, replica: int) -> None:
    """Let an observer fetch until it is caught up."""
    for _ in range(2):
        context.ask(context.fetch(replica, max_wait_ms=0), channel=replica)
        context.wait(10)


def high_watermark_after_fetch(context: SingleCore, replica: int, offset: int) -> int:
    context.ask(context.fetch(replica, offset=offset, max_wait_ms=0), channel=replica)
    return context.core.log.high_watermark


# Voter changes -------------------------------------------------------------------------------


def test_q21_a_leader_outside_the_voter_set_does_not_count_itself() -> None:
    """C48, C111: both remaining voters must have the record of the leader's removal. C137."""
    context = committed_leader()
    assert context.core.remove_voter("me", key(1), context.now) == 0
    context.step()
    assert high_watermark_after_fetch(context, 2, 12) == 11
    effects = context.ask(context.fetch(3, max_wait_ms=0), channel=3)
    assert context.core.log.high_watermark == 12
    assert of_kind(Proposed, effects) == [Proposed("me", 0, 12)]
    assert context.role == "resigned"
    assert {peer: end.successors for peer, end in sends(effects).items()} == dict.fromkeys(
        (2, 3), (key(2), key(3))
    )


def test_q21_a_new_voter_does_not_lower_the_high_watermark() -> None:
    """C49: it counts from now on, with its known progress."""
    context = committed_leader()
    catch_up(context, 4)
    context.propose("a")
    context.step()
    assert high_watermark_after_fetch(context, 2, 12) == 12
    assert context.core.add_voter("grow", Voter(key(4)), context.now) == 0
    context.step()
    assert context.core.log.high_watermark == 12
    assert high_watermark_after_fetch(context, 2, 13) == 12, "two of four are no majority"
    assert high_watermark_after_fetch(context, 3, 13) == 13


def test_q21_removing_a_lagging_voter_may_commit_at_once() -> None:
    """C49: of four a majority is three; of three it is two."""
    context = committed_leader(voters=voters_of(1, 2, 3, 4))
    context.propose("a")
    context.step()
    assert high_watermark_after_fetch(context, 2, 12) == 11
    assert context.core.remove_voter("lagging", key(4), context.now) == 0
    assert Proposed("a", 0, 12) in context.step()
    assert context.core.log.high_watermark == 12


def test_q21_the_same_fetch_again_changes_nothing() -> None:
    """C47."""
    context = committed_leader()
    context.propose("a")
    context.step()
    assert [high_watermark_after_fetch(context, 2, offset) for offset in (12, 12, 11, 12)] == [
        12,
        12,
        12,
        12,
    ]


def test_q15_a_voter_that_forgot_the_leader_finds_it_by_fetching() -> None:
    """C45: it has acknowledged the leader already, so it is not notified again."""
    net = FaultyNetwork(1, 2, 3)
    net.pass_time(5000)
    current_leader = net.leader()
    voter_id = next(i for i in (1, 2, 3) if i != current_leader.me.id)
    host = net.faulty_host(voter_id)
    host.persisted = host.persisted.replace(leader_id=-1)
    net.crash(voter_id)
    assert net.core(voter_id).role.name in {"unattached", "voted"}
    epoch = current_leader.election.epoch
    net.pass_time(500)
    assert net.core(voter_id).election.leader_id == current_leader.me.id
    assert current_leader.election.epoch == epoch


def test_q11_fetching_a_snapshot_counts_as_contact() -> None:
    """C54: a voter with a long download keeps its leader."""
    context = leader()
    chunk = SnapshotFetch("cluster", key(2), 5, OffsetAndEpoch(4, 1), 0, 100)
    for _ in range(4):
        context.wait(CHECK_QUORUM_TIMEOUT_MS - 1)
        context.ask(chunk)
    assert context.role == "leader"
    context.wait(CHECK_QUORUM_TIMEOUT_MS - 1)
    context.ask(chunk.replace(replica=key(9)))
    context.wait(1)
    assert context.role == "resigned"


# Resigning ----------------------------------------------------------------------------------


def test_q26_a_failed_state_machine_resigns_its_epoch() -> None:
    """C56, C140, KAFKA-13104: otherwise the quorum would have no working leader."""
    context = committed_leader()
    context.propose("a")
    assert context.core.resign(5, context.now) == 0
    effects = context.step()
    assert context.role == "resigned"
    assert of_kind(Proposed, effects) == [Proposed("a", ErrorCode.REQUEST_TIMED_OUT)]
    assert all(isinstance(body, EndEpoch) for body in sends(effects).values())
    assert context.core.resign(5, context.now) == 0, "that epoch has ended already"
    assert context.step() == []


@pytest.mark.parametrize(
    ("make", "epoch", "error"),
    [
        (leader, 4, ErrorCode.NONE),
        (leader, 6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (follower_after_fetch, 4, ErrorCode.NONE),
        (follower_after_fetch, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (observer, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (observer, 6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_q26_only_the_current_epoch_can_be_resigned(make: Any, epoch: int, error: int) -> None:
    """C56: an older one has ended already, a newer one is unknown."""
    context = make()
    before = context.state
    assert context.core.resign(epoch, context.now) == error
    assert context.state == before


# Refused proposals --------------------------------------------------------------------------


def test_q25_refused_proposals_return_distinct_error_codes() -> None:
    """C57: an oversized batch costs the proposal, not the leadership (AutoMQ 2057). C140."""
    context = committed_leader()
    limit = CONFIG.max_batch_bytes

    def attempt(size_bytes: int, epoch: int) -> int:
        return context.core.propose("pending", 1, size_bytes, None, context.now, epoch)

    assert attempt(limit + 1, 5) == ErrorCode.MESSAGE_TOO_LARGE
    assert attempt(10, 4) == attempt(10, 6) == ErrorCode.FENCED_LEADER_EPOCH
    assert (context.step(), context.core.log.end, context.role) == ([], 11, "leader")
    assert attempt(limit, 5) == attempt(10, -1) == ErrorCode.NONE
    assert len(of_kind(Append, context.step())) == 2
    context = resigned()
    assert attempt(10, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_q26_proposals_of_an_old_epoch_are_not_appended() -> None:
    """C57: the replica lost and regained leadership before its state machine noticed."""
    context = unattached(voters=voters_of(1))
    old = context.core.election.epoch
    assert context.core.resign(old, context.now) == 0
    context.wait_for("election")
    assert (context.role, context.core.election.epoch) == ("leader", old + 1)
    assert (
        context.core.propose("pending", 1, 10, None, context.now, old)
        == ErrorCode.FENCED_LEADER_EPOCH
    )


def test_q20_a_held_fetch_learns_that_the_leader_resigns() -> None:
    """C60."""
    context = committed_leader()
    assert replies(context.ask(context.fetch(9), channel=9)) == []
    context.core.resign(5, context.now)
    (answer,) = replies(context.step())
    assert (answer.error, answer.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

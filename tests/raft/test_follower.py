"""Followers: finding the leader, fetching, appending, truncating, acknowledging.

A Q or R and a number cite a rule of tests/rules.toml, a C and a number a situation of
tests/checklist.toml.
"""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.fetching import IGNORE_HIGH_WATERMARK
from kraftlog.raft.messages import (
    Append,
    BeginEpochResult,
    Committed,
    ElectionDurable,
    Fetch,
    LeaderChanged,
    LogDurable,
    PersistElection,
    Response,
    Send,
    Truncate,
)
from kraftlog.types import OffsetAndEpoch
from tests.raft.single_core import (
    EVERY_ROLE,
    FETCH_TIMEOUT_MS,
    VOTER_ROLES,
    batch,
    candidate,
    follower,
    follower_after_fetch,
    key,
    leader,
    observer,
    of_kind,
    prospective,
    resigned,
    sends,
    unattached,
    voted,
)

in_every_role = pytest.mark.parametrize("make", EVERY_ROLE.values(), ids=EVERY_ROLE)


def test_q22_a_pure_voter_does_not_fetch_for_commits_alone() -> None:
    """Without awaits_commits it learns of commits with the next records."""
    context = follower()
    context.core.config = context.core.config.replace(awaits_commits=False)
    end = context.core.log.end
    (sent,) = of_kind(Send, context.respond(2, context.fetch_result(high_watermark=end)))
    assert sent.body.high_watermark == IGNORE_HIGH_WATERMARK
    assert context.core.log.high_watermark == end


# The leader -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", VOTER_ROLES.values(), ids=VOTER_ROLES)
def test_q16_the_leader_of_a_newer_epoch_is_followed_at_once(make: Any) -> None:
    """Q3: the fetch leaves once the election state is durable. C63."""
    context = make()
    context.slow_disk = True
    log = context.core.log
    effects = context.ask(context.begin_epoch(3, 6))
    assert context.state == ("follower", 6, 3, -1)
    (persist,) = of_kind(PersistElection, effects)
    assert of_kind(LeaderChanged, effects) == [LeaderChanged(3, 6)]
    (fetch,) = of_kind(Send, effects)
    assert fetch.body == Fetch(
        "cluster", key(1), 6, log.end, log.last_epoch, log.high_watermark, 500, 8 << 20
    )
    assert ElectionDurable(persist.version) in fetch.after


@pytest.mark.parametrize("make", [unattached, voted, prospective, candidate, observer])
def test_q16_begin_quorum_epoch_is_adopted_without_a_known_leader(make: Any) -> None:
    """C20."""
    context = make()
    vote = context.core.election.voted
    assert context.response_to(context.begin_epoch(3, 5)) == BeginEpochResult(0, 3, 5)
    assert (context.core.election.leader_id, context.core.election.voted) == (3, vote)
    assert context.role in {"follower", "observer"}


@pytest.mark.parametrize("make", [leader, follower, follower_after_fetch, resigned])
def test_q16_another_leader_in_the_same_epoch_is_refused(make: Any) -> None:
    """C52, C72."""
    context = make()
    before = context.state
    assert context.response_to(context.begin_epoch(3, 5)).error == ErrorCode.INVALID_REQUEST
    assert context.state == before


@in_every_role
def test_q16_an_older_epoch_is_fenced(make: Any) -> None:
    """C18."""
    context = make()
    before = context.state
    answer = context.response_to(context.begin_epoch(3, 4))
    assert (answer.error, answer.epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)
    assert context.state == before


def test_q16_a_repeated_begin_quorum_epoch_changes_nothing() -> None:
    """C69."""
    context = follower_after_fetch()
    context.wait(100)
    effects = context.ask(context.begin_epoch(2, 5))
    assert [effect.body for effect in effects] == [BeginEpochResult(0, 2, 5)]
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS - 100


@in_every_role
@pytest.mark.parametrize("leader_id", [-1, -7])
@pytest.mark.parametrize("epoch", [5, 6])
def test_q28_begin_quorum_epoch_needs_a_leader_id(make: Any, leader_id: int, epoch: int) -> None:
    context = make()
    before = context.state
    assert (
        context.response_to(context.begin_epoch(leader_id, epoch)).error
        == ErrorCode.INVALID_REQUEST
    )
    assert context.state == before


@in_every_role
@pytest.mark.parametrize("epoch", [5, 6])
def test_q16_a_begin_quorum_epoch_naming_this_replica_is_invalid(make: Any, epoch: int) -> None:
    """C52."""
    context = make()
    before = context.state
    assert context.response_to(context.begin_epoch(1, epoch)).error == ErrorCode.INVALID_REQUEST
    assert context.state == before


# Fetching ----------------------------------------------------------------------------------------


def test_q19_fetched_records_are_appended_and_acknowledged_by_a_fetch() -> None:
    context = follower()
    effects = context.respond(2, context.fetch_result(batch(10, 4), batch(11, 5, last=12)))
    assert of_kind(Append, effects) == [Append(batch(10, 4)), Append(batch(11, 5, last=12))]
    fetch = sends(effects)[2]
    assert (fetch.epoch, fetch.offset, fetch.last_epoch) == (5, 13, 5)
    assert context.core.log.epochs.entries() == [(1, 0), (4, 10), (5, 11)]


def test_q6_a_voter_acknowledges_only_what_is_durable() -> None:
    """C74."""
    context = follower(slow_disk=True)
    (send,) = of_kind(Send, context.respond(2, context.fetch_result(batch(10, 5))))
    assert send.after == (LogDurable(11),)
    context.flush()
    (send,) = of_kind(Send, context.respond(2, context.fetch_result()))
    assert send.after == ()


def test_q6_an_observer_acknowledges_nothing_and_need_not_wait() -> None:
    """C74."""
    context = observer(slow_disk=True)
    context.ask(context.begin_epoch(2, 5))
    context.persist()
    (send,) = of_kind(Send, context.respond(2, context.fetch_result(batch(10, 5))))
    assert (send.body.offset, send.after) == (11, ())


@pytest.mark.parametrize(
    ("batches", "kept"),
    [
        ((batch(10, 5), batch(12, 5)), 1),  # a gap
        ((batch(9, 5),), 0),  # already in the log
        ((batch(11, 5),), 0),
        ((batch(10, 5), batch(11, 4)), 1),  # a decreasing epoch
        ((batch(10, 5), batch(11, 6)), 1),  # a future epoch
    ],
)
def test_q19_only_the_valid_prefix_of_fetched_batches_is_taken(batches: Any, kept: int) -> None:
    """C81. C139."""
    context = follower()
    effects = context.respond(2, context.fetch_result(*batches))
    assert of_kind(Append, effects) == [Append(valid) for valid in batches[:kept]]
    assert context.role == "follower"


@pytest.mark.parametrize(("received", "expected"), [(-1, 4), (3, 4), (6, 6), (11, 11), (99, 11)])
def test_q22_a_followers_high_watermark_is_bounded_by_its_log(received: int, expected: int) -> None:
    """C83, C84."""
    context = follower(high_watermark=4)
    effects = context.respond(2, context.fetch_result(batch(10, 5), high_watermark=received))
    assert context.core.log.high_watermark == expected
    assert of_kind(Committed, effects) == ([Committed(expected)] if expected > 4 else [])


def test_q22_the_high_watermark_survives_role_changes() -> None:
    """C71."""
    context = follower()
    context.respond(2, context.fetch_result(high_watermark=7))
    context.wait(FETCH_TIMEOUT_MS)
    context.respond(2, context.vote_result())
    context.respond(2, context.vote_result(epoch=6, leader_id=2))
    assert (context.state, context.core.log.high_watermark) == (("follower", 6, 2, 1), 7)


def test_q24_fetches_to_a_silent_leader_are_retried_with_backoff() -> None:
    """C118."""
    context = follower()
    pauses = []
    for _ in range(5):
        context.no_response(2)
        pauses.append(context.ms_until("fetch"))
        assert isinstance(sends(context.wait_for("fetch"))[2], Fetch)
    assert pauses[-1] > 4 * pauses[0]
    context.respond(2, context.fetch_result())
    context.no_response(2)
    assert context.ms_until("fetch") <= 2 * pauses[0] + 2


@pytest.mark.parametrize("role", ["prospective", "another leader"])
def test_q2_responses_to_requests_of_another_role_are_ignored(role: str) -> None:
    """C68, C117."""
    context = follower_after_fetch()
    earlier_fetch = context.core.peer(2).in_flight
    answer = context.fetch_result(batch(10, 5), high_watermark=9)
    if role == "prospective":
        context.wait(FETCH_TIMEOUT_MS)
    else:
        context.ask(context.begin_epoch(3, 6))
    assert context.step(Response(2, earlier_fetch, answer)) == []
    assert context.core.log.end == 10


@pytest.mark.parametrize(
    "answer",
    [
        {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"error": ErrorCode.FENCED_LEADER_EPOCH},
        {"error": ErrorCode.UNKNOWN_SERVER_ERROR},
    ],
    ids=str,
)
def test_q9a_an_error_of_the_leader_does_not_reset_the_timeout(answer: dict[str, int]) -> None:
    """C65: the fetch is repeated until the timeout."""
    context = follower_after_fetch()
    context.wait(100)
    context.respond(2, context.fetch_result(**answer))
    assert context.ms_until("fetch timeout") == FETCH_TIMEOUT_MS - 100
    assert isinstance(sends(context.wait_for("fetch"))[2], Fetch)


# Truncating --------------------------------------------------------------------------------------

LOG: dict[str, Any] = {"epochs": ((1, 0), (3, 4), (4, 8)), "end": 10}


@pytest.mark.parametrize(
    ("diverging", "end"),
    [
        ((9, 4), 9),  # the leader's end is smaller
        ((4, 1), 4),
        ((6, 1), 4),  # the follower's end is smaller
        ((5, 3), 5),
        ((8, 3), 8),
        ((9, 3), 8),
        ((7, 2), 4),  # an epoch that this log lacks
        ((0, 0), 0),
        ((0, 1), 0),
    ],
)
def test_q19_a_diverging_log_is_truncated_to_the_smaller_epoch_end(
    diverging: tuple[int, int], end: int
) -> None:
    """C76."""
    context = follower(**LOG)
    effects = context.respond(2, context.fetch_result(diverging=OffsetAndEpoch(*diverging)))
    assert of_kind(Truncate, effects) == [Truncate(end)]
    fetch = sends(effects)[2]
    assert fetch.offset == context.core.log.end == end
    assert fetch.last_epoch == max([epoch for epoch, start in LOG["epochs"] if start < end] or [0])


def test_q19_committed_records_are_never_truncated() -> None:
    """A fatal assertion, before any effect is carried out. C77."""
    context = follower(**LOG, high_watermark=6)
    answer = context.fetch_result(diverging=OffsetAndEpoch(5, 3))
    with pytest.raises(AssertionError, match="the high watermark is 6"):
        context.respond(2, answer)
    assert of_kind(Truncate, context.core.take_effects()) == []
    assert context.core.log.end == 10


def test_q22_a_diverging_response_moves_no_high_watermark() -> None:
    """C84."""
    context = follower(**LOG)
    effects = context.respond(
        2, context.fetch_result(diverging=OffsetAndEpoch(9, 4), high_watermark=9)
    )
    assert of_kind(Committed, effects) == []


def test_q6_records_appended_after_a_truncation_are_flushed_again() -> None:
    context = follower(**LOG, slow_disk=True)
    context.respond(2, context.fetch_result(diverging=OffsetAndEpoch(5, 3)))
    assert context.core.log.flushed == 5
    (send,) = of_kind(Send, context.respond(2, context.fetch_result(batch(5, 5))))
    assert send.after == (LogDurable(6),)


def test_q7_truncating_no_record_still_removes_epochs_starting_there() -> None:
    """C78, KAFKA-10706: otherwise the next fetch would have an epoch without any record."""
    log = follower(epochs=((1, 0), (4, 10)), end=10).core.log
    assert log.last_epoch == 4
    log.truncate(10)
    assert (log.end, log.epochs.entries(), log.last_epoch) == (10, [(1, 0)], 1)


# A leader that is no voter ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [unattached, voted])
def test_r5_a_non_voter_leader_may_be_followed(make: Any) -> None:
    """C73: it was removed, and commits its removal."""
    context = make()
    assert context.response_to(context.begin_epoch(9, 5)) == BeginEpochResult(0, 9, 5)
    effects = context.respond(9, context.fetch_result(batch(10, 5), high_watermark=11))
    assert of_kind(Committed, effects) == [Committed(11)]
    assert context.role == "follower"

"""Q2: epochs end at 2^31-1, so requests raise them no faster than elections do."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.epoch_allowance import EPOCHS_PER_S, INITIAL_EPOCHS, EpochAllowance
from kraftlog.raft.messages import MAX_EPOCH, EpochRefused, VoteResult
from kraftlog.types import Now
from tests.raft.single_core import (
    EVERY_ROLE,
    SingleCore,
    end_epoch,
    follower,
    of_kind,
    replies,
    sends,
    unattached,
)

TOO_FAR = 5 + INITIAL_EPOCHS + 1

#: Each request that may raise the epoch, in the name of voter 2.
REQUESTS: dict[str, Any] = {
    "vote": lambda context, epoch: context.vote(epoch=epoch),
    "pre-vote": lambda context, epoch: context.vote(epoch=epoch, pre_vote=True),
    "begin": lambda context, epoch: context.begin_epoch(epoch=epoch),
    "end": lambda _, epoch: end_epoch(2, epoch, 1),
}
every_request = pytest.mark.parametrize("make_request", REQUESTS.values(), ids=REQUESTS)


@every_request
@pytest.mark.parametrize("make", EVERY_ROLE.values(), ids=EVERY_ROLE)
@pytest.mark.parametrize("epoch", [TOO_FAR + INITIAL_EPOCHS, MAX_EPOCH])
def test_q2_an_epoch_that_no_election_explains_is_refused(
    make: Any, make_request: Any, epoch: int
) -> None:
    context = make()
    before = context.state
    effects = context.ask(make_request(context, epoch))
    [answer] = replies(effects)
    assert (answer.error, answer.epoch) == (ErrorCode.INVALID_REQUEST, 5)
    assert context.state == before
    assert of_kind(EpochRefused, effects) == [EpochRefused(2, epoch)]
    assert context.core.refused_epochs == 1


@every_request
def test_q2_an_epoch_within_the_allowance_is_adopted(make_request: Any) -> None:
    context = unattached()
    context.ask(make_request(context, TOO_FAR - 1))
    assert context.core.election.epoch >= TOO_FAR - 1
    assert context.core.refused_epochs == 0


def test_q2_many_small_steps_are_limited_like_a_large_one() -> None:
    context = unattached()
    for _ in range(3 * INITIAL_EPOCHS):
        context.response_to(context.vote(epoch=context.core.election.epoch + 1))
    assert context.core.election.epoch == 5 + INITIAL_EPOCHS
    context.pass_unpolled(2000)
    for _ in range(3 * EPOCHS_PER_S):
        context.response_to(context.vote(epoch=context.core.election.epoch + 1))
    assert context.core.election.epoch == 5 + INITIAL_EPOCHS + 2 * EPOCHS_PER_S


def test_q2_a_voter_that_was_away_learns_the_epoch_from_its_own_requests() -> None:
    """It needs no further request of others: its pre-vote is enough."""
    context = follower()
    context.response_to(context.begin_epoch(3, MAX_EPOCH - 9))
    assert context.state == ("follower", 5, 2, -1)
    asked = sends(context.wait_for("fetch timeout"))
    assert set(asked) == {2, 3}
    context.respond(3, VoteResult(ErrorCode.FENCED_LEADER_EPOCH, 3, MAX_EPOCH - 9, False))
    assert context.state == ("follower", MAX_EPOCH - 9, 3, -1)


def test_q2_a_candidate_asks_again_where_its_epoch_was_refused() -> None:
    """So it gets the vote as soon as the other replica knows the epoch."""
    context = candidate_far_ahead()
    epoch = context.core.election.epoch
    context.respond(2, VoteResult(ErrorCode.INVALID_REQUEST, -1, 5, False))
    assert context.role == "candidate"
    again = sends(context.wait_for("ask 2"))[2]
    assert (again.epoch, again.pre_vote) == (epoch, False)
    context.respond(2, context.vote_result())
    assert context.role == "leader"


def candidate_far_ahead() -> SingleCore:
    context = unattached()
    context.wait_for("election")
    context.respond(3, VoteResult(ErrorCode.FENCED_LEADER_EPOCH, -1, TOO_FAR, False))
    context.wait_for("election")
    context.respond(2, context.vote_result())
    assert context.role == "candidate"
    return context


def test_an_allowance_loses_no_fraction_of_an_epoch() -> None:
    allowance: EpochAllowance | None = EpochAllowance(0, 0)
    for ms in range(1, 1001):
        assert allowance is not None
        allowance = allowance.without(0, Now(ms, 0)) or allowance
    assert allowance is not None
    assert allowance.without(EPOCHS_PER_S, Now(1000, 0)) is not None
    assert allowance.without(EPOCHS_PER_S + 1, Now(1000, 0)) is None

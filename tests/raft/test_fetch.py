"""Q18, Q19: the checks of a fetch, their order, and divergence."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import FetchResult
from kraftlog.types import OffsetAndEpoch
from tests.raft.single_core import (
    EVERY_ROLE,
    SingleCore,
    committed_leader,
    leader,
    replies,
    voters_of,
)

NOT_LEADERS = {name: make for name, make in EVERY_ROLE.items() if name != "leader"}


@pytest.mark.parametrize("make", NOT_LEADERS.values(), ids=NOT_LEADERS)
@pytest.mark.parametrize("cluster_id", ["cluster", "other", None])
def test_q18_a_non_leader_names_the_leader_and_checks_nothing(make: Any, cluster_id: Any) -> None:
    """Q23: also for a fetch of another epoch. C61."""
    context = make()
    before = context.state
    for epoch in (4, 5, 9):
        answer = context.response_to(
            context.fetch(cluster_id=cluster_id, epoch=epoch, offset=0, last_epoch=0)
        )
        leader_id = context.core.election.leader_id
        assert answer == FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id, 5, -1)
    assert context.state == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other", "epoch": 4, "offset": -1}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"cluster_id": "", "epoch": 5}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 4, "last_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": 6}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({}, ErrorCode.NONE),
        ({"cluster_id": None}, ErrorCode.NONE),
        ({"epoch": -1}, ErrorCode.NONE),
        ({"last_epoch": -1}, ErrorCode.NONE),
        ({"epoch": -1, "last_epoch": -1}, ErrorCode.NONE),
    ],
    ids=str,
)
def test_q18_a_leader_checks_cluster_and_epoch_in_this_order(
    changes: dict[str, Any], error: int
) -> None:
    """Q19: -1 skips a check. Q28: each code only where a rule says so.

    Q23: all responses name the leader. C80, C85.
    """
    context = committed_leader()
    answer = context.response_to(context.fetch(**{"max_wait_ms": 0, **changes}))
    assert (answer.error, answer.leader_id, answer.epoch) == (error, 1, 5)
    assert answer.diverging is None
    assert context.role == "leader"


#: The leader's log: epoch 1 from 0, epoch 3 from 4; then epoch 5 from 10, and its end is 11.
EPOCHS = ((1, 0), (3, 4))


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (11, 5, None),  # the end of the log
        (10, 3, None),  # the boundary of two epochs
        (4, 1, None),
        (0, 0, None),  # an empty log
        (7, 3, None),
        (2, 1, None),
        (12, 5, (11, 5)),
        (99, 5, (11, 5)),
        (11, 4, (10, 3)),  # an epoch that the leader lacks
        (9, 4, (10, 3)),
        (11, 3, (10, 3)),
        (5, 1, (4, 1)),
        (5, 2, (4, 1)),
        (3, 2, (4, 1)),
    ],
)
def test_q19_a_fetch_outside_its_last_epoch_gets_that_epochs_end(
    offset: int, last_epoch: int, diverging: tuple[int, int] | None
) -> None:
    """At once, without records and without an error code. C75, C79."""
    context = leader(epochs=EPOCHS)
    answers = replies(context.ask(context.fetch(2, offset=offset, last_epoch=last_epoch)))[-1:]
    if diverging is None:
        assert all(answer.diverging is None for answer in answers)
    else:
        (answer,) = answers
        expected = OffsetAndEpoch(*diverging)
        assert answer == FetchResult(0, 1, 5, -1, diverging=expected)


def test_q22_a_leader_names_no_high_watermark_before_its_epoch_has_one() -> None:
    """Followers may know a higher one, and Kafka's replicas fail if theirs would decrease."""
    context = leader(epochs=EPOCHS, high_watermark=4)
    answer = context.response_to(context.fetch(2, offset=10, last_epoch=3))
    assert answer.high_watermark == -1
    answer = context.response_to(context.fetch(2, offset=11, last_epoch=5, max_wait_ms=0))
    assert (answer.high_watermark, context.core.log.high_watermark) == (11, 11)


@pytest.mark.parametrize(("offset", "last_epoch"), [(5, 1), (1, 1), (3, 2)])
def test_q19_an_epoch_older_than_the_whole_log_diverges_at_its_start(
    offset: int, last_epoch: int
) -> None:
    """C79."""
    context = leader(epochs=((3, 0),))
    answer = context.response_to(context.fetch(2, offset=offset, last_epoch=last_epoch))
    assert (answer.error, answer.diverging.offset) == (0, 0)
    assert answer.diverging.epoch <= last_epoch


def test_q19_followers_of_an_empty_leader_truncate_to_the_start() -> None:
    context = leader(end=0, voters=voters_of(1, 2, 3))
    answer = context.response_to(context.fetch(2, offset=7, last_epoch=3))
    assert (answer.error, answer.diverging.offset) == (0, 0)


def test_q19_repeated_truncation_ends_where_the_logs_agree() -> None:
    """Q7: the epochs suffice; each response shortens the log, and common records stay. C127."""
    agreed = ((1, 0), (2, 3))
    new_leader = SingleCore(epochs=(*agreed, (3, 5), (6, 7)), end=9)
    old_leader = SingleCore(epochs=(*agreed, (4, 5), (5, 8)), end=12)
    ends = [old_leader.core.log.end]
    while True:
        log = old_leader.core.log
        diverging = new_leader.core.log.divergence(log.end, log.last_epoch)
        if diverging is None:
            break
        log.truncate(min(diverging.offset, log.end_of_epoch(diverging.epoch).offset))
        ends.append(log.end)
        assert ends[-1] < ends[-2]
    assert (ends[-1], old_leader.core.log.epochs.entries()) == (5, [(1, 0), (2, 3)])

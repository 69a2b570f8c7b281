"""Each rule for members of a group has a history that violates it, and one that does not."""

from __future__ import annotations

import pytest

from kraftlog_simulator.checkers.group_history import NO_OFFSET, GroupHistory

PARTITION = 0


def history_of_commits(*, acknowledged: tuple[int, ...]) -> GroupHistory:
    """Commits of offset 10 at 100 ms, 20 at 200 and 30 at 300; acknowledgements are 50 ms later."""
    history = GroupHistory()
    for offset in (10, 20, 30):
        history.committing(PARTITION, offset, 10 * offset)
        if offset in acknowledged:
            history.committed(PARTITION, offset, 10 * offset + 50)
    return history


@pytest.mark.parametrize("offset", [20, 30])
def test_the_last_acknowledged_offset_or_a_later_one_is_no_violation(offset: int) -> None:
    assert history_of_commits(acknowledged=(10, 20)).fetched(PARTITION, offset, 400, 410) == ""


@pytest.mark.parametrize("offset", [10, NO_OFFSET])
def test_an_offset_older_than_the_acknowledged_one_is_a_violation(offset: int) -> None:
    history = history_of_commits(acknowledged=(10, 20))
    assert "was committed" in history.fetched(PARTITION, offset, 400, 410)


def test_a_fetch_sent_before_the_acknowledgement_may_miss_the_commit() -> None:
    assert history_of_commits(acknowledged=(10, 20)).fetched(PARTITION, 10, 250, 260) == ""


def test_a_commit_of_unknown_outcome_may_take_effect_later() -> None:
    assert history_of_commits(acknowledged=(20, 30)).fetched(PARTITION, 10, 400, 410) == ""


def test_an_offset_older_than_a_fetched_one_is_a_violation() -> None:
    history = history_of_commits(acknowledged=(10,))
    history.committing(PARTITION, 40, 400)
    assert history.fetched(PARTITION, 40, 410, 420) == ""
    assert "after 40 was committed" in history.fetched(PARTITION, 10, 430, 440)


def test_a_fetched_offset_that_was_never_committed_is_a_violation() -> None:
    assert "never committed" in history_of_commits(acknowledged=()).fetched(PARTITION, 11, 400, 410)


def test_a_generation_below_an_assigned_one_is_a_violation() -> None:
    history = GroupHistory()
    assert history.assigned("a", 4, [0, 1]) == ""
    assert history.generation == 4
    assert history.joined(4, history.generation) == ""
    assert history.joined(3, history.generation) == "generation 3 after 4"


def test_two_members_of_a_partition_in_one_generation_are_a_violation() -> None:
    history = GroupHistory()
    assert history.assigned("a", 4, [0, 1]) == ""
    assert history.assigned("b", 5, [0]) == ""
    assert history.assigned("b", 4, [1]) == "a and b have partition 1 in generation 4"

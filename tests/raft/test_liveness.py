"""D3, D4: what a leader knows of when its replicas last fetched, and last had everything."""

from __future__ import annotations

from typing import Any

from tests.raft.solo import Solo, committed_leader, leader


def times(solo: Solo, replica: int) -> tuple[int, int]:
    """Last fetched and last caught up, by the wall clock."""
    known = solo.progress(replica)
    return known.fetched_wall_ms, known.caught_up_wall_ms


def fetch(solo: Solo, replica: int, **changes: Any) -> int:
    solo.ask(solo.fetch(replica, **changes), channel=replica)
    return solo.now.wall_ms


def test_d3_a_replica_that_never_fetched_is_unknown() -> None:
    """C115."""
    solo = leader()
    assert (solo.progress(2).end_offset, times(solo, 2)) == (-1, (-1, -1))


def test_d3_a_fetch_is_dated_by_the_leaders_wall_clock() -> None:
    """Voters and observers alike."""
    solo = leader()
    for replica in (2, 9):
        solo.wait(70)
        at = fetch(solo, replica, offset=4, last_epoch=1)
        solo.wait(30)
        assert (solo.progress(replica).end_offset, times(solo, replica)) == (4, (at, -1))


def test_d4_a_fetch_at_the_end_of_the_log_is_caught_up_now() -> None:
    """C115."""
    solo = committed_leader()
    solo.wait(50)
    at = fetch(solo, 2)
    assert times(solo, 2) == (at, at)


def test_d4_a_fetch_at_what_was_the_end_was_caught_up_when_it_was_the_end() -> None:
    solo = committed_leader()
    solo.wait(50)
    first = fetch(solo, 2, offset=4, last_epoch=1)  # the log ends at 11
    solo.propose("a")
    solo.wait(50)
    second = fetch(solo, 2, offset=11)  # now at 12
    assert times(solo, 2) == (second, first)
    solo.propose("b")
    solo.wait(50)
    third = fetch(solo, 2, offset=11)  # not as far as the log was at the second
    assert times(solo, 2) == (third, first)
    solo.wait(50)
    fourth = fetch(solo, 2)
    assert times(solo, 2) == (fourth, fourth)


def test_d3_a_fetch_that_was_refused_is_none() -> None:
    solo = leader()
    fetch(solo, 2, epoch=4, last_epoch=1)
    fetch(solo, 2, offset=99)
    assert times(solo, 2) == (-1, -1)


def test_d3_a_follower_that_fetches_from_further_back_is_shown_there() -> None:
    """C50."""
    solo = committed_leader()
    fetch(solo, 2, offset=3, last_epoch=1)
    assert solo.progress(2).end_offset == 3

"""D3, D4: when a replica last fetched, and when it was last caught up."""

from __future__ import annotations

from typing import Any

from tests.raft.single_core import SingleCore, committed_leader, leader


def fetch_times(context: SingleCore, replica: int) -> tuple[int, int]:
    """Last fetched and last caught up, by the wall clock."""
    progress = context.progress(replica)
    return progress.fetched_wall_ms, progress.caught_up_wall_ms


def fetch(context: SingleCore, replica: int, **changes: Any) -> int:
    """Handle a fetch of a replica; return the time."""
    context.ask(context.fetch(replica, **changes), channel=replica)
    return context.now.wall_ms


def test_d3_a_replica_that_never_fetched_is_unknown() -> None:
    """C115."""
    context = leader()
    assert (context.progress(2).end_offset, fetch_times(context, 2)) == (-1, (-1, -1))


def test_d3_a_fetch_is_dated_by_the_leaders_wall_clock() -> None:
    """The same for voters and observers."""
    context = leader()
    for replica in (2, 9):
        context.wait(70)
        fetched_ms = fetch(context, replica, offset=4, last_epoch=1)
        context.wait(30)
        assert (context.progress(replica).end_offset, fetch_times(context, replica)) == (
            4,
            (fetched_ms, -1),
        )


def test_d4_a_fetch_at_the_end_of_the_log_is_caught_up_now() -> None:
    """C115."""
    context = committed_leader()
    context.wait(50)
    fetched_ms = fetch(context, 2)
    assert fetch_times(context, 2) == (fetched_ms, fetched_ms)


def test_d4_a_fetch_at_an_earlier_end_was_caught_up_at_that_time() -> None:
    context = committed_leader()
    context.wait(50)
    first = fetch(context, 2, offset=4, last_epoch=1)  # the log ends at 11
    context.propose("a")
    context.wait(50)
    second = fetch(context, 2, offset=11)  # now at 12
    assert fetch_times(context, 2) == (second, first)
    context.propose("b")
    context.wait(50)
    third = fetch(context, 2, offset=11)  # before the log end at the second fetch
    assert fetch_times(context, 2) == (third, first)
    context.wait(50)
    fourth = fetch(context, 2)
    assert fetch_times(context, 2) == (fourth, fourth)


def test_d3_a_refused_fetch_is_not_recorded() -> None:
    context = leader()
    fetch(context, 2, epoch=4, last_epoch=1)
    fetch(context, 2, offset=99)
    assert fetch_times(context, 2) == (-1, -1)


def test_d1_a_fetch_at_a_lower_offset_lowers_the_reported_end() -> None:
    """C50."""
    context = committed_leader()
    fetch(context, 2, offset=3, last_epoch=1)
    assert context.progress(2).end_offset == 3

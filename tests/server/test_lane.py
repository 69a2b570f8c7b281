"""A lane runs jobs elsewhere, in order, and tells on the loop what came of them."""

from __future__ import annotations

import select
import threading
from typing import Any

import pytest

from kraftlog.server.lane import Lane
from kraftlog.types import Now
from tests.patience import LIMIT_S
from tests.server.crowded import no_room_for_threads

NOW = Now(5, 6)


def test_jobs_run_in_order_elsewhere_and_are_told_here() -> None:
    lane = Lane("test")
    told: list[tuple[Any, BaseException | None, Now]] = []
    workers: set[str] = set()

    def job(number: int) -> int:
        workers.add(threading.current_thread().name)
        return 1 // number

    for number in (1, 0, 1):
        lane.submit(lambda n=number: job(n), lambda *what: told.append(what))  # type: ignore[misc]  # mypy gives a default no type
    while len(told) < 3:
        assert select.select([lane.ready_fd], [], [], LIMIT_S)[0]
        lane.deliver(NOW)
    lane.deliver(NOW)
    lane.close()
    assert [result for result, _, _ in told] == [1, None, 1]
    assert [type(error) for _, error, _ in told] == [type(None), ZeroDivisionError, type(None)]
    assert {now for _, _, now in told} == {NOW}
    assert workers == {"test"}


def test_a_lane_finishes_what_it_was_given_before_it_closes() -> None:
    lane = Lane("test")
    done: list[int] = []
    for number in range(100):
        lane.submit(lambda n=number: done.append(n), lambda *_: None)  # type: ignore[misc]  # as above
    lane.close()
    assert done == list(range(100))


def test_a_lane_that_was_given_nothing_closes() -> None:
    lane = Lane("test")
    lane.finish(NOW)
    lane.close()


def test_a_stop_waits_for_what_is_under_way_and_hears_what_came_of_it() -> None:
    """A flush whose end nobody was told is one that may have failed: no log is sound by that."""
    lane = Lane("test")
    told: list[int] = []
    may_end = threading.Event()

    def ended(result: int, _: BaseException | None, __: Now) -> None:
        told.append(result)
        if result < 3:
            lane.submit(lambda: result + 2, ended)  # what follows upon it is not waited for

    lane.submit(lambda: [1, may_end.wait(60)][0], ended)
    lane.submit(lambda: 2, ended)
    may_end.set()
    lane.finish(NOW)
    assert told == [1, 2]
    lane.finish(NOW)
    assert told == [1, 2, 3, 4]
    lane.close()


def test_where_no_thread_can_be_started_jobs_are_done_on_the_loop(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What is to be on the disk gets there; the next job tries again to have a thread."""
    lane = Lane("test")
    told: list[tuple[str, BaseException | None]] = []

    def submit() -> None:
        lane.submit(
            lambda: threading.current_thread().name,
            lambda result, error, _: told.append((result, error)),
        )

    with no_room_for_threads():
        submit()
        submit()
    assert not told, "on the loop, and not within the call"
    lane.deliver(NOW)
    submit()
    while len(told) < 3:
        assert select.select([lane.ready_fd], [], [], LIMIT_S)[0]
        lane.deliver(NOW)
    lane.close()
    here = threading.current_thread().name
    assert told == [(here, None), (here, None), ("test", None)]
    assert capfd.readouterr().err == "the lane test has no thread: can't start new thread\n"

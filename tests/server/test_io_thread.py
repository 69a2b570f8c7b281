"""I/O threads run jobs in order and deliver their results on the loop."""

from __future__ import annotations

import select
import threading
from typing import Any

import pytest

from kraftlog.server.io_thread import IOThread, IOThreads
from kraftlog.types import Now
from tests.patience import LIMIT_S
from tests.server.crowded import no_room_for_threads

NOW = Now(5, 6)


def test_jobs_run_in_order_and_report_on_the_loop() -> None:
    io_thread = IOThread("test")
    outcome: list[tuple[Any, BaseException | None, Now]] = []
    workers: set[str] = set()

    def job(number: int) -> int:
        workers.add(threading.current_thread().name)
        return 1 // number

    for number in (1, 0, 1):
        io_thread.submit(lambda n=number: job(n), lambda *what: outcome.append(what))  # type: ignore[misc]  # mypy gives a default no type
    while len(outcome) < 3:
        assert select.select([io_thread.ready_fd], [], [], LIMIT_S)[0]
        io_thread.deliver(NOW)
    io_thread.deliver(NOW)
    io_thread.close()
    assert [result for result, _, _ in outcome] == [1, None, 1]
    assert [type(error) for _, error, _ in outcome] == [type(None), ZeroDivisionError, type(None)]
    assert {now for _, _, now in outcome} == {NOW}
    assert workers == {"test"}


def test_close_finishes_submitted_jobs() -> None:
    io_thread = IOThread("test")
    done: list[int] = []
    for number in range(100):
        io_thread.submit(lambda n=number: done.append(n), lambda *_: None)  # type: ignore[misc]  # as above
    io_thread.close()
    assert done == list(range(100))


def test_unused_threads_close() -> None:
    io_threads = IOThreads()
    io_threads.finish(NOW)
    io_threads.close()


def test_finish_waits_for_jobs_and_delivers_their_results() -> None:
    """A flush without a reported result may have failed, so its log does not count as clean."""
    io_threads = IOThreads()
    outcome: list[int] = []
    may_end = threading.Event()

    def ended(result: int, _: BaseException | None, __: Now) -> None:
        outcome.append(result)
        if result < 3:
            io_threads.data.submit(
                lambda: result + 2, ended
            )  # finish does not wait for a job that a callback submits

    io_threads.data.submit(lambda: [1, may_end.wait(LIMIT_S)][0], ended)
    io_threads.data.submit(lambda: 2, ended)
    may_end.set()
    io_threads.finish(NOW)
    assert outcome == [1, 2]
    io_threads.finish(NOW)
    assert outcome == [1, 2, 3, 4]
    io_threads.close()


def test_finish_waits_for_the_jobs_of_every_thread() -> None:
    io_threads = IOThreads()
    workers: list[threading.Thread] = []
    for thread in (io_threads.maintenance, io_threads.data, io_threads.quorum):
        thread.submit(threading.current_thread, lambda worker, *_: workers.append(worker))
    io_threads.finish(NOW)
    assert sorted(it.name for it in workers) == ["data", "maintenance", "quorum"]
    assert not any(it.is_alive() for it in workers)
    io_threads.close()


def test_no_thread_waits_for_another() -> None:
    io_threads = IOThreads()
    outcome: list[str] = []
    may_end = threading.Event()
    io_threads.data.submit(lambda: may_end.wait(LIMIT_S), lambda *_: outcome.append("data"))
    io_threads.maintenance.submit(lambda: may_end.wait(LIMIT_S), lambda *_: outcome.append("other"))
    io_threads.quorum.submit(lambda: None, lambda *_: outcome.append("quorum"))
    while not outcome:
        assert select.select([io_threads.ready_fd], [], [], LIMIT_S)[0]
        io_threads.deliver(NOW)
    assert outcome == ["quorum"]
    may_end.set()
    io_threads.close()


def test_threads_run_only_when_needed() -> None:
    """The quorum's thread stays; the maintenance thread ends once it has no more jobs."""
    io_threads = IOThreads()
    before = set(threading.enumerate())
    started: list[threading.Thread] = []

    def ended(*_: object) -> None:
        started.extend(set(threading.enumerate()) - before)

    for thread in (io_threads.quorum, io_threads.maintenance):
        started.clear()
        thread.submit(lambda: None, ended)
        while not started:
            assert select.select([io_threads.ready_fd], [], [], LIMIT_S)[0]
            io_threads.deliver(NOW)
    assert sorted(it.name for it in started) == ["maintenance", "quorum"]
    [maintenance] = [it for it in started if it.name == "maintenance"]
    maintenance.join(LIMIT_S)
    assert [it.name for it in set(threading.enumerate()) - before] == ["quorum"]
    io_threads.close()
    assert set(threading.enumerate()) <= before


def test_jobs_run_on_the_loop_if_no_thread_can_be_started(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The job runs on the loop; the next job tries again to start the thread."""
    io_thread = IOThread("test")
    outcome: list[tuple[str, BaseException | None]] = []

    def submit() -> None:
        io_thread.submit(
            lambda: threading.current_thread().name,
            lambda result, error, _: outcome.append((result, error)),
        )

    with no_room_for_threads():
        submit()
        submit()
    assert not outcome, "results are delivered later, on the loop"
    io_thread.deliver(NOW)
    submit()
    while len(outcome) < 3:
        assert select.select([io_thread.ready_fd], [], [], LIMIT_S)[0]
        io_thread.deliver(NOW)
    io_thread.close()
    loop_thread = threading.current_thread().name
    assert outcome == [(loop_thread, None), (loop_thread, None), ("test", None)]
    assert capfd.readouterr().err == "cannot start the I/O thread test: can't start new thread\n"

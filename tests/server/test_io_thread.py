"""I/O threads run jobs in order and deliver their results on the loop."""

from __future__ import annotations

import select
import threading
from typing import Any

import pytest

from kraftlog.server.io_thread import OsIOThread, OsIOThreads
from kraftlog.types import Now
from tests.server.without_threads import threads_cannot_start
from tests.time_limit import LIMIT_S

NOW = Now(5, 6)


def test_jobs_run_in_order_and_report_on_the_loop() -> None:
    io_thread = OsIOThread("test")
    reports: list[tuple[Any, BaseException | None, Now]] = []
    workers: set[str] = set()

    def job(number: int) -> int:
        workers.add(threading.current_thread().name)
        return 1 // number

    for number in (1, 0, 1):
        io_thread.submit(lambda n=number: job(n), lambda *report: reports.append(report))  # type: ignore[misc]  # mypy gives a default no type
    while len(reports) < 3:
        assert select.select([io_thread.ready_fd], [], [], LIMIT_S)[0]
        io_thread.deliver(NOW)
    io_thread.deliver(NOW)
    io_thread.close()
    assert [result for result, _, _ in reports] == [1, None, 1]
    assert [type(error) for _, error, _ in reports] == [type(None), ZeroDivisionError, type(None)]
    assert {now for _, _, now in reports} == {NOW}
    assert workers == {"test"}


def test_close_finishes_submitted_jobs() -> None:
    io_thread = OsIOThread("test")
    done: list[int] = []
    for number in range(100):
        io_thread.submit(lambda n=number: done.append(n), lambda *_: None)  # type: ignore[misc]  # as above
    io_thread.close()
    assert done == list(range(100))


def test_unused_threads_close() -> None:
    io_threads = OsIOThreads()
    io_threads.finish(NOW)
    io_threads.close()


def test_finish_waits_for_jobs_and_delivers_their_results() -> None:
    """A flush without a reported result may have failed, so its log does not count as clean."""
    io_threads = OsIOThreads()
    results: list[int] = []
    may_end = threading.Event()

    def ended(result: int, _: BaseException | None, __: Now) -> None:
        results.append(result)
        if result < 3:
            io_threads.data.submit(
                lambda: result + 2, ended
            )  # finish does not wait for a job that a callback submits

    def first() -> int:
        may_end.wait(LIMIT_S)
        return 1

    io_threads.data.submit(first, ended)
    io_threads.data.submit(lambda: 2, ended)
    may_end.set()
    io_threads.finish(NOW)
    assert results == [1, 2]
    io_threads.finish(NOW)
    assert results == [1, 2, 3, 4]
    io_threads.close()


def test_finish_waits_for_the_jobs_of_every_thread() -> None:
    io_threads = OsIOThreads()
    workers: list[threading.Thread] = []
    for thread in (io_threads.maintenance, io_threads.data, io_threads.quorum):
        thread.submit(threading.current_thread, lambda worker, *_: workers.append(worker))
    io_threads.finish(NOW)
    assert sorted(it.name for it in workers) == ["data", "maintenance", "quorum"]
    assert not any(it.is_alive() for it in workers)
    io_threads.close()


def test_no_thread_waits_for_another() -> None:
    io_threads = OsIOThreads()
    ended: list[str] = []
    may_end = threading.Event()
    io_threads.data.submit(lambda: may_end.wait(LIMIT_S), lambda *_: ended.append("data"))
    io_threads.maintenance.submit(lambda: may_end.wait(LIMIT_S), lambda *_: ended.append("other"))
    io_threads.quorum.submit(lambda: None, lambda *_: ended.append("quorum"))
    while not ended:
        assert select.select([io_threads.ready_fd], [], [], LIMIT_S)[0]
        io_threads.deliver(NOW)
    assert ended == ["quorum"]
    may_end.set()
    io_threads.close()


def test_threads_run_only_when_needed() -> None:
    """The quorum's thread stays; the maintenance thread ends once it has no more jobs."""
    io_threads = OsIOThreads()
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
    """Each job tries again to start the thread."""
    io_thread = OsIOThread("test")
    results: list[tuple[str, BaseException | None]] = []

    def submit() -> None:
        io_thread.submit(
            lambda: threading.current_thread().name,
            lambda result, error, _: results.append((result, error)),
        )

    with threads_cannot_start():
        submit()
        submit()
    assert not results, "results are delivered later, on the loop"
    io_thread.deliver(NOW)
    submit()
    while len(results) < 3:
        assert select.select([io_thread.ready_fd], [], [], LIMIT_S)[0]
        io_thread.deliver(NOW)
    io_thread.close()
    loop_thread = threading.current_thread().name
    assert results == [(loop_thread, None), (loop_thread, None), ("test", None)]
    assert capfd.readouterr().err == "cannot start the I/O thread test: can't start new thread\n"

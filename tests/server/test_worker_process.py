"""The worker process runs CPU-bound tasks and reports failures in one line."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.server.files import OsFiles
from kraftlog.server.loop import read_clock
from kraftlog.server.worker_process import OsWorkerProcess
from kraftlog.storage.compaction import describe_task, log_to_clean
from kraftlog.storage.disk import Disk, HandleCache
from kraftlog.storage.recovery import open_log, run
from tests.server.without_threads import threads_cannot_start
from tests.storage.compacting import COMPACTED
from tests.storage.making import T0
from tests.storage.test_compaction import append_keyed, end_segment
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path


def compact_in(worker: OsWorkerProcess, task: dict[str, Any]) -> tuple[Any, BaseException | None]:
    results: list[tuple[Any, BaseException | None]] = []
    worker.compact(task, lambda result, error, _: results.append((result, error)))
    while not results:
        assert select.select([worker.ready_fd], [], [], LIMIT_S)[0]
        worker.deliver(read_clock())
    return results[0]


def test_the_worker_rewrites_segments_or_reports_the_error(tmp_path: Path) -> None:
    files = OsFiles()
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = run(open_log(Disk(files, HandleCache(files, 50)), str(folder), COMPACTED))[0]
    for number in range(20):
        append_keyed(log, (1, number))
    end_segment(log)
    to_clean = log_to_clean(log, log.end_offset, T0)
    assert to_clean is not None
    task = describe_task(log, to_clean, T0, 100)
    worker = OsWorkerProcess()
    result, error = compact_in(worker, task)
    assert error is None
    assert result["clean_to"] == 20
    assert (folder / "00000000000000000000.log.cleaned").exists()
    result, error = compact_in(worker, {**task, "folder": str(tmp_path / "elsewhere")})
    assert result is None
    assert isinstance(error, ChildProcessError)
    assert "No such file" in str(error)
    worker.close()
    log.release()


def test_a_task_fails_if_no_thread_can_be_started(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Without a thread, I/O jobs run on the event loop; a compaction does not: it would block it.

    The next check for dirty logs retries the compaction.
    """
    worker = OsWorkerProcess()
    with threads_cannot_start():
        result, error = compact_in(worker, {})
    worker.close()
    assert result is None
    assert isinstance(error, OSError)
    assert error.strerror == "cannot start an I/O thread"
    assert "cannot start the I/O thread worker" in capfd.readouterr().err

"""The comparison of clusters: its page, and a run of kraftlog alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.beside.figures import Result
from bench.beside.rows import KAFKA, KRAFTLOG
from bench.cluster import command
from bench.cluster.rows import ROWS

from tests.interop.cache import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path


def results() -> dict[str, Result]:
    found = {}
    for task, rows in ROWS.items():
        found[task] = Result(task, "2026-01-01 10:00:00", "2026-01-01 10:05:00", 97.4)
        for row in rows:
            found[task].add(row.key, KAFKA, 6)
            found[task].add(row.key, KRAFTLOG, 2)
    return found


def test_every_task_has_rows_and_every_row_one_key() -> None:
    assert list(ROWS) == list(command.TASKS)
    keys = [row.key for rows in ROWS.values() for row in rows]
    assert len(set(keys)) == len(keys)


def test_the_page_has_a_line_for_every_row() -> None:
    lines = command.part(results()).splitlines()
    assert "| create topic, p50 | ms | 6 | 2 | 3× | ≤ 4 | reached |" in lines
    assert len([line for line in lines if line.startswith("| ")]) == 1 + sum(
        map(len, ROWS.values())
    )
    assert "Not measured" not in command.part(results())


def test_the_page_says_what_is_not_measured() -> None:
    found = results()
    del found["kill"]
    assert "Not measured: `kill`." in command.part(found)


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--rows", "kil"])
    assert "there are produce, sync" in capsys.readouterr().err


def test_kraftlog_alone_is_measured_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "keep", lambda _: pytest.fail("the page was written"))
    tasks = list(command.TASKS)
    try:
        command.require(tasks, [KRAFTLOG])
    except UnavailableError:
        tasks = [task for task in tasks if task not in command.NEED_PROGRAMS]
    code = command.main(["--only", KRAFTLOG, "--quick", "--rows", ",".join(tasks)])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert [row.what for task in tasks for row in ROWS[task] if row.what not in printed] == []


def test_after_a_failed_task_the_others_have_another_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    used = []

    def fails(cluster: object, *_: object) -> None:
        used.append(cluster)
        raise TimeoutError

    def works(cluster: object, *_: object) -> None:
        used.append(cluster)

    monkeypatch.setitem(command.TASKS, "sync", fails)
    monkeypatch.setitem(command.TASKS, "create", works)
    found = {task: Result(task) for task in ("sync", "create")}
    assert not command.is_measured(KRAFTLOG, command.QUICK, found, str(tmp_path))
    assert len(set(used)) == 2
    assert found["sync"].notes == ["**kraftlog: `sync` failed: TimeoutError.**"]
    assert found["create"].notes == []
    printed = capsys.readouterr().err
    assert all(f"kraftlog {node_id}: runs" in printed for node_id in (1, 2, 3))

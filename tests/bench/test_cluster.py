"""The comparison of clusters: its page, and a run of kraftlog alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.beside import machine
from bench.beside.figures import Result
from bench.beside.page import table
from bench.beside.rows import BARE, KAFKA, KRAFTLOG, Row, at_most, share
from bench.cluster import command, loads, page
from bench.cluster.cables import may_cut
from bench.cluster.nodes import Cluster
from bench.cluster.rows import ROWS, TITLE, TITLES
from bench.cluster.tasks import NEED_PROGRAMS, TASKS, Task
from bench.page import section, with_section

from tests.interop.cache import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path


def results() -> dict[str, Result]:
    results_by_task = {}
    for task, rows in ROWS.items():
        results_by_task[task] = Result(task, "2026-01-01 10:00:00", "2026-01-01 10:05:00", 97.4)
        for row in rows:
            results_by_task[task].add(row.key, KAFKA, 6)
            results_by_task[task].add(row.key, KRAFTLOG, 2)
    return results_by_task


def test_every_task_has_a_title_and_rows_and_every_row_one_key() -> None:
    assert list(ROWS) == list(TASKS) == list(TITLES)
    keys = [row.key for rows in ROWS.values() for row in rows]
    assert len(set(keys)) == len(keys)
    assert len(set(TITLES.values())) == len(TITLES)


def test_a_row_is_only_kraftlogs_if_its_task_runs_without_kafka() -> None:
    for task, rows in ROWS.items():
        lacks_kafka = KAFKA not in TASKS[task].peers
        assert [row.key for row in rows if row.only_kraftlog != lacks_kafka] == []


def test_the_page_has_a_line_for_every_row() -> None:
    lines = page.section_text(results(), "").splitlines()
    assert "| create a topic, p50 | ms | 6 | 2 | 3× | ≤ 4 | reached |" in lines
    rows = [line for line in lines if line.startswith("| ") and "---" not in line]
    heads = [line for line in lines if line.startswith("| | unit")]
    assert len(rows) == len(heads) + sum(map(len, ROWS.values()))
    assert "Not measured" not in page.section_text(results(), "")


def test_a_run_keeps_the_tables_of_tasks_that_it_has_not_measured() -> None:
    old = page.section_text(results(), "")
    measured = {"kill": results()["kill"]}
    for row in ROWS["kill"]:
        measured["kill"].figures[row.key][KRAFTLOG] = [3.0]
    new = page.section_text(measured, old)
    assert new == page.section_text({**results(), **measured}, "")
    assert [line for line in new.splitlines() if "| 6 | 3 | 2× |" in line] != []
    assert page.section_text({}, new) == new


def test_a_failed_task_does_not_replace_its_table() -> None:
    old = page.section_text(results(), "")
    assert page.section_text({"kill": Result("kill")}, old) == old


def test_the_page_lists_tasks_that_were_not_measured() -> None:
    without_kill = results()
    del without_kill["kill"]
    assert "Not measured: `python -m bench cluster kill`." in page.section_text(without_kill, "")


def test_a_section_of_the_page_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    assert section(TITLE, str(path)) == ""
    text = page.section_text(results(), "")
    path.write_text(
        with_section("# Performance\n\n## Wire\n\n| a |\n", TITLE, text) + "\n## More\n"
    )
    assert section(TITLE, str(path)).rstrip() == text.rstrip()


def test_a_row_without_kafka_is_compared_with_its_goal_alone() -> None:
    rows = [
        Row("a", "reached", "s", at_most(3), only_kraftlog=True),
        Row("b", "missed", "s", at_most(1), only_kraftlog=True),
        Row("c", "relative", "s", share(0.5), only_kraftlog=True),
        Row("d", "unknown", "s", at_most(3)),
    ]
    result = Result("any")
    for row in rows:
        result.add(row.key, KRAFTLOG, 2)
    assert [line for line in table(rows, result) if "---" not in line][1:] == [
        "| reached | s |  | 2 |  | ≤ 3 | reached |",
        "| missed | s |  | 2 |  | ≤ 1 | **missing 2×** |",
        "| relative | s |  | 2 |  | 0.5 of Kafka's |  |",
    ]


def test_kafka_runs_its_slowest_tasks_only_if_they_are_named() -> None:
    assert "node" in command.tasks_of(KRAFTLOG, [])
    assert "node" not in command.tasks_of(KAFKA, [])
    assert command.tasks_of(KAFKA, ["node", "kill"]) == ["node", "kill"]
    assert command.tasks_of(BARE, ["node", "produce"]) == ["produce"]
    assert set(command.tasks_of(KRAFTLOG, [])) == set(TASKS)


def test_tasks_run_in_their_own_order_whatever_the_arguments() -> None:
    assert command.parse_arguments(["failover", "produce"]).tasks == ["produce", "failover"]


def test_an_unknown_task_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["kil"])
    assert "there are produce, latency" in capsys.readouterr().err


@pytest.mark.long
def test_kraftlog_and_the_bare_server_are_measured_and_no_page_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "write_tables", lambda _: pytest.fail("the page was written"))
    monkeypatch.setattr(command, "QUICK", replace(command.QUICK, scale=0.002))
    tasks, peers = list(TASKS), [KRAFTLOG, BARE]
    try:
        command.require(tasks, peers)
    except UnavailableError:
        tasks, peers = [task for task in tasks if task not in NEED_PROGRAMS], [KRAFTLOG]
    if not may_cut():
        tasks.remove("cable")
    for peer in peers:
        assert command.main(["--peer", peer, "--quick", *tasks]) == 0
        printed = capsys.readouterr().out
        measured = [task for task in tasks if peer in TASKS[task].peers]
        names = [row.what for task in measured for row in ROWS[task]]
        assert [name for name in names if name not in printed] == []


def test_after_a_failed_task_the_others_have_another_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    used = []

    def fails(cluster: Cluster, *_: object) -> None:
        used.append(cluster)
        raise TimeoutError

    def works(cluster: Cluster, *_: object) -> None:
        used.append(cluster)

    monkeypatch.setitem(TASKS, "latency", Task(fails))
    monkeypatch.setitem(TASKS, "consume", Task(works))
    monkeypatch.setitem(TASKS, "create", Task(works))
    task_results = [Result(task) for task in ("latency", "consume", "create")]
    assert not command.run_tasks(KRAFTLOG, command.QUICK, task_results, str(tmp_path))
    latency_cluster, consume_cluster, create_cluster = used
    assert latency_cluster is not consume_cluster
    assert consume_cluster is create_cluster
    assert task_results[0].notes == ["**kraftlog: `latency` failed: TimeoutError.**"]
    assert [each.notes for each in task_results[1:]] == [[], []]
    printed = capsys.readouterr().err
    assert all(f"kraftlog {node_id}: runs" in printed for node_id in (1, 2, 3))


def test_nothing_is_measured_if_the_disk_lacks_space(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = loads.written_bytes("consume", command.QUICK)
    peers: list[str] = []

    def run_tasks(peer: str, *_: object) -> bool:
        peers.append(peer)
        return True

    monkeypatch.setattr(command, "require", lambda *_: None)
    monkeypatch.setattr(command, "run_tasks", run_tasks)
    monkeypatch.setattr(machine, "idle_percent", lambda: 100.0)
    arguments = ["--quick", "--peer", KRAFTLOG, "consume"]
    monkeypatch.setattr(machine, "free_bytes", lambda _: needed - 1)
    assert command.main(arguments) == 1
    assert "GB free; this needs" in capsys.readouterr().err
    assert not peers
    monkeypatch.setattr(machine, "free_bytes", lambda _: needed)
    assert command.main(arguments) == 0
    assert peers == [KRAFTLOG]

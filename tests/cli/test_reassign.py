"""V10: `kraftlog reassign` on one broker, its files and its progress."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli.progress import ChangeProgress
from kraftlog.cli.reassign import plan_in, progress_text
from kraftlog.client.model import Partition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.shell import Shell

    Named = Callable[[str], str]


def plan_flag(folder: Path, topic: str, index: int, *replicas: int) -> str:
    file = folder / "reassignment.json"
    parts = [{"topic": topic, "partition": index, "replicas": replicas}]
    file.write_text(json.dumps({"version": 1, "partitions": parts}))
    return f"--reassignment-json-file {file}"


def test_v10_a_reassignment_is_executed_and_verified(
    shell: Shell, named: Named, tmp_path: Path
) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1 --replication-factor 1")
    (row,) = shell.json(f"topics --describe --topic {topic}")
    broker = row["partitions"][0]["leader"]
    plan = plan_flag(tmp_path, topic, 0, broker)
    shown = shell.run(f"reassign {plan} --execute --wait")
    assert f'"topic": "{topic}", "partition": 0, "replicas": [{broker}]' in shown
    assert f"Successfully started partition reassignment for {topic}-0" in shown
    assert shell.stderr == "1 of 1 partitions done, 1 of 1 replicas in sync\n"
    shown = shell.run(f"reassign {plan} --verify")
    assert f"Reassignment of partition {topic}-0 is completed." in shown
    assert "None of the specified" in shell.run(f"reassign {plan} --cancel")
    assert shell.run("reassign --list") == "No partition reassignments found.\n"
    assert shell.json("reassign --list") == []


def test_v10_an_impossible_reassignment_is_refused(
    shell: Shell, named: Named, tmp_path: Path
) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1 --replication-factor 1")
    plan = plan_flag(tmp_path, topic, 0, 99)
    assert "broker 99 is not in the cluster" in shell.fails(f"reassign {plan} --execute")
    shown = shell.run(f"reassign {plan} --verify", code=1)
    assert f"{topic}-0 is not completed: the replicas are " in shown
    plan = plan_flag(tmp_path, topic, 7, 1)
    assert f"partition {topic}-7 does not exist" in shell.fails(f"reassign {plan} --execute")
    assert "--reassignment-json-file is required" in shell.fails("reassign --cancel", code=2)
    assert "expected numbers" in shell.fails("reassign --balance --brokers one", code=2)
    assert "broker 98 is not" in shell.fails("reassign --balance --brokers 98")


def test_v10_one_broker_is_balanced(shell: Shell, named: Named, tmp_path: Path) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 2 --replication-factor 1")
    assert shell.run("reassign --balance --dry-run") == "The partitions are balanced.\n"
    assert shell.json("reassign --balance --dry-run")["partitions"] == []
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    (row,) = shell.json(f"topics --describe --topic {topic}")
    broker = row["partitions"][0]["leader"]
    flags = f"--topics-to-move-json-file {file} --broker-list {broker}"
    shown = shell.json(f"reassign --generate {flags}")
    assert shown["current"] == shown["proposed"]
    assert "Proposed partition" in shell.run(f"reassign --generate {flags}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "expected"),
        ('{"partitions": []}', "at least one entry"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "expected"),
        (
            json.dumps({"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}] * 2}),
            "a-0 is listed twice",
        ),
        (
            json.dumps(
                {
                    "partitions": [
                        {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["/a"]}
                    ]
                }
            ),
            "a-0: expected a list of log_dirs, one for each",
        ),
    ],
)
def test_files_with_errors_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        plan_in(text)


def test_log_directories_of_replicas_are_read() -> None:
    parts = [
        {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/b"]},
        {"topic": "a", "partition": 1, "replicas": [2]},
    ]
    plan = plan_in(json.dumps({"partitions": parts}))
    assert plan.replicas == {("a", 0): (1, 2), ("a", 1): (2,)}
    assert plan.directories == {("a", 0, 2): "/b"}


def test_v10_progress_counts_target_replicas_in_sync() -> None:
    targets = {("a", 0): (2, 3), ("a", 1): (1, 2)}
    partitions = {
        ("a", 0): Partition("a", 0, 1, 5, (2, 3, 1), (1, 2)),
        ("a", 1): Partition("a", 1, 1, 5, (1, 2), (1, 2)),
    }
    text = progress_text(targets, partitions, [("a", 0)])
    assert text == "1 of 2 partitions done, 3 of 4 replicas in sync"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"),
    [(io.StringIO(), "a\nb\n"), (Terminal(), "\r\x1b[Ka\r\x1b[Kb\n")],
)
def test_progress_redraws_one_line_on_a_terminal(stream: io.StringIO, shown: str) -> None:
    progress = ChangeProgress(stream)
    for text in ("a", "a", "b"):
        progress.show(text)
    progress.end()
    assert stream.getvalue() == shown

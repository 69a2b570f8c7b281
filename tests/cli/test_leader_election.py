"""`kraftlog leader-election` against kraftlog and Kafka: preferred and unclean elections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell


def test_elections_that_are_not_needed_show_the_leaders(shell: Shell) -> None:
    shell.run("topics --create --topic elected --partitions 2")
    rows = shell.json("leader-election --election-type PREFERRED --topic elected --partition 1")
    assert [(row["topic"], row["partition"], row["error"]) for row in rows] == [("elected", 1, "")]
    rows = shell.json("leader-election --election-type preferred --all-topic-partitions")
    assert {row["error"] for row in rows if row["topic"] == "elected"} == {""}
    shown = shell.run("leader-election --election-type unclean --topic elected --partition 0")
    assert "REPLICA" in str(shown), "how much each replica has"


def test_partition_that_does_not_exist_is_an_error(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "nowhere", "partition": 7}]}')
    command = f"leader-election --election-type preferred --path-to-json-file {file}"
    assert "1 of 1 elections failed" in shell.fails(command)


@pytest.mark.parametrize(
    "flags", [["--topic", "t"], ["--all-topic-partitions", "--topic", "t"], []]
)
def test_flags_that_do_not_name_partitions_exit_with_2(flags: list[str]) -> None:
    command = ["leader-election", "-b", "127.0.0.1:1", "--election-type", "unclean", *flags]
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(command))
    assert ended.value.code == 2

"""`kraftlog pipeline simulate` runs the simulator's seeds in the tasks of a Spark job."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from kraftlog.cli import main
from kraftlog.spark.pipelines.simulate import ARROW, RunSettings, row_of
from kraftlog.spark.pipelines.simulation_runs import RunsTable
from kraftlog.spark.tables import read_table
from kraftlog.version import VERSION
from kraftlog_simulator.digest import simulate_with_digest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEEDS = range(11, 21)
COMMAND = ["pipeline", "simulate", "--seeds", "11:21", "--scenario", "leader-partitioned"]


@pytest.mark.long
def test_runs_equal_those_of_the_simulator(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same seeds give the same rows, whichever task runs them; `--to` stores the same rows.

    Later runs are added to the table.
    """
    assert main([*COMMAND, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = [event for event in events if event["event"] == "row"]
    expected = [simulate_with_digest("leader-partitioned", seed) for seed in SEEDS]
    assert [(row["seed"], row["steps"], row["digest"]) for row in rows] == [
        (outcome.seed, outcome.steps, digest) for outcome, digest in expected
    ]
    assert len({row["digest"] for row in rows}) == len(SEEDS)
    assert [row["situations"] for row in rows] == [
        dict(sorted(outcome.coverage.items())) for outcome, _ in expected
    ]
    assert {row["verdict"] for row in rows} == {"passed"}
    result = events[-1]
    assert (result["event"], result["seeds"], result["failed"]) == ("result", 10, 0)
    assert result["steps"] == sum(outcome.steps for outcome, _ in expected)

    table = tmp_path / "runs"
    assert main([*COMMAND, "--to", str(table)]) == 0
    assert result["digest"] in capsys.readouterr().out
    stored = spark.read.parquet(*DeltaTable(table).file_uris()).orderBy("seed").collect()
    assert [(row.seed, row.digest) for row in stored] == [
        (row["seed"], row["digest"]) for row in rows
    ]

    columns = ("scenario", "verdict", "violation", "events", "time_ms", "version")
    assert [tuple(row[name] for name in columns) for row in stored] == [
        ("leader-partitioned", "passed", None, outcome.events, outcome.time_ms, VERSION)
        for outcome, _ in expected
    ]
    assert stored[0].commit is None or re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", stored[0].commit)

    assert main([*COMMAND, "--seeds", "21:23", "--to", str(table)]) == 0
    assert "2 seeds, 0 failed" in capsys.readouterr().out
    runs = read_table(spark, str(table))
    assert sorted(row.seed for row in runs.collect()) == [*SEEDS, 21, 22]


def test_runs_are_not_added_to_a_table_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of a version with fewer columns is one of runs: they are added."""
    rows = {"seed": pa.array([1], pa.int64()), "scenario": ["s"], "digest": ["d"]}
    write_deltalake(str(tmp_path / "other"), pa.table({"seed": [1]}))
    write_deltalake(str(tmp_path / "old"), pa.table(rows))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_text("a")
    for name, words in (("other", "of something else"), ("files", "and no Delta table")):
        assert main([*COMMAND, "--to", str(tmp_path / name), "--dry-run"]) == 1
        assert words in capsys.readouterr().err
    assert main([*COMMAND, "--to", "s3://a/b", "--dry-run"]) == 1
    assert "expected a directory, not a URL" in capsys.readouterr().err
    table = RunsTable(str(tmp_path / "old"), ARROW)
    os.mkdir(table.files)
    row = row_of(RunSettings("leader-partitioned", False, None), 3)
    pq.write_table(pa.Table.from_pylist([row], ARROW), f"{table.files}/part.parquet")
    table.commit()
    stored = DeltaTable(str(tmp_path / "old")).to_pyarrow_table().to_pylist()
    assert {each["seed"]: each["events"] for each in stored} == {1: None, 3: row["events"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "3"], "--seeds 3: expected A:B"),
        (["--seeds", "5:5"], "--seeds 5:5: expected A:B"),
        (["--seeds", "1:2", "--scenario", "dance"], "--scenario dance"),
        (["--seeds", "1:2", "--faults", "dance"], "--faults dance"),
        (["--seeds", "1:2", "--scenario", "cluster", "--nodes"], "--nodes"),
        (["--seeds", "1:2", "--conf", "a"], "--conf a: expected KEY=VALUE"),
    ],
)
def test_wrong_options_are_usage_errors(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["pipeline", "simulate", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_runs_nothing(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["pipeline", "simulate", "--seeds", "1:1000001", "--scenario", "any", "--dry-run"])
        == 0
    )
    assert capsys.readouterr().out == (
        "1,000,000 seeds, 1 to 1000000, of scenario any; nothing was run\n"
    )

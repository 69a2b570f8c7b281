"""`kraftlog pipeline simulate` runs the simulator's seeds in the tasks of a Spark job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from kraftlog.cli import main
from kraftlog.simulator.digest import simulate_with_digest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEEDS = range(11, 21)
COMMAND = ["pipeline", "simulate", "--seeds", "11:21", "--scenario", "leader-partitioned"]


def test_runs_equal_those_of_the_simulator(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same seeds give the same rows, whichever task runs them; `--to` stores the same rows.

    A table that exists already is refused.
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

    assert main([*COMMAND, "--to", str(table)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].endswith("exists already: give a new directory, or move this one away")
    assert main([*COMMAND, "--to", str(table), "--dry-run"]) == 1
    assert "exists already" in capsys.readouterr().err


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

"""What `kraftlog pipeline replay` checks before Spark starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kraftlog import Client
from kraftlog.spark.pipelines import common
from kraftlog.spark.pipelines.replay import run
from kraftlog.spark.replay.lane import HEADER, Replay
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"value": [b"v"], "partition": pa.array([0], pa.int32()), "offset": [0]})


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: common.Pipeline) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(common.Pipeline, "spark", property(start))


@pytest.fixture
def run_refused_replay(
    our_node: str, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """A function that runs a replay, and returns its exit code and its one line of errors."""

    def run_replay(*arguments: object, to: str = "nowhere") -> tuple[int, str]:
        code = run([*map(str, arguments), "--to", to, "-b", our_node])
        [line] = capsys.readouterr().err.splitlines()
        return code, line

    return run_replay


def test_an_unknown_topic_is_refused(
    run_refused_replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    write_deltalake(str(tmp_path / "t"), ROWS)
    code, error = run_refused_replay(tmp_path / "t")
    assert (code, "topic nowhere does not exist" in error) == (1, True)


def test_topic_is_refused_for_a_table_without_a_topic_column(
    run_refused_replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """Only the topic that the directory is named after is accepted, as it selects all records."""
    write_deltalake(str(tmp_path / "orders"), ROWS)
    code, error = run_refused_replay(tmp_path / "orders", "--topic", "other")
    assert code == 2
    assert "--topic other: " in error
    assert "has no column topic to choose by" in error
    assert (
        "nowhere does not exist" in run_refused_replay(tmp_path / "orders", "--topic", "orders")[1]
    )


def test_a_directory_of_tables_is_refused(
    run_refused_replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    for name in ("payments", "orders"):
        write_deltalake(str(tmp_path / name), ROWS)
    (tmp_path / "_kraftlog").mkdir()
    code, error = run_refused_replay(tmp_path)
    assert code == 1
    assert error.endswith(
        f"is a directory of tables: name one of them: {tmp_path}/orders, {tmp_path}/payments"
    )


def test_a_table_without_rows_or_columns_is_refused(
    run_refused_replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    DeltaTable.create(str(tmp_path / "empty"), ROWS.schema)
    assert "is a Delta table without rows" in run_refused_replay(tmp_path / "empty")[1]
    write_deltalake(str(tmp_path / "other"), pa.table({"x": [1]}))
    columns = "has no column value and partition and offset; its columns are x"
    assert columns in run_refused_replay(tmp_path / "other")[1]
    write_deltalake(str(tmp_path / "t"), ROWS)
    assert (
        "has no column timestamp to keep"
        in run_refused_replay(tmp_path / "t", "--keep-timestamps")[1]
    )
    assert (
        "has no column timestamp to select by"
        in run_refused_replay(tmp_path / "t", "--from", "2026-01-01")[1]
    )


def test_a_dry_run_prints_what_would_be_written(
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without Spark, and without a trace in the cluster."""
    topic = named("t")
    write_deltalake(str(tmp_path / "t"), ROWS)
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        assert run([f"{tmp_path}/t", "--to", topic, "-b", our_node, "--dry-run"]) == 0
        assert not [group.id for group in client.groups() if group.id == "kraftlog-replay-t"]
    assert capsys.readouterr().out.splitlines() == [
        "PARTITION  FIRST  LAST  NEXT",
        "        0      0     0     0",
        f"1 records would be written to {topic}, 0 are there already",
    ]
    arguments = [f"{tmp_path}/t", "--to", topic, "-b", our_node, "--dry-run", "--rate", "0.25"]
    assert run(arguments) == 0
    assert capsys.readouterr().out.endswith("\nit would take 0:04\n")


def test_spark_is_not_started_if_nothing_is_left(
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = named("t")
    write_deltalake(str(tmp_path / "t"), ROWS)
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        with client.producer() as producer:
            place = json.dumps(Replay(topic, "t").header(0, 0))
            producer.send(topic, "v", headers={HEADER: place})
    assert run([f"{tmp_path}/t", "--to", topic, "-b", our_node]) == 0
    assert ": 0 written now, 1 were there already" in capsys.readouterr().out
    assert run([f"{tmp_path}/t", "--to", topic, "-b", our_node, "--until", "0"]) == 0
    assert capsys.readouterr().out.startswith("0 records of ")


def test_producers_that_may_repeat_records_are_refused(
    run_refused_replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    write_deltalake(str(tmp_path / "t"), ROWS)
    (tmp_path / "client.properties").write_text("acks=1\n")
    code, error = run_refused_replay(tmp_path / "t", "-c", tmp_path / "client.properties")
    assert (code, "replay needs acks=all and enable.idempotence=true" in error) == (1, True)


def test_unreachable_brokers_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_deltalake(str(tmp_path / "t"), ROWS)
    assert run([str(tmp_path / "t"), "--to", "t", "-b", "127.0.0.1:1"]) == 1
    assert "check --bootstrap-server, and that the brokers run" in capsys.readouterr().err

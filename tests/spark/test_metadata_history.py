"""`kraftlog pipeline metadata --history`: each change as a row, appended exactly once."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kraftlog import Client
from kraftlog.client.metadata_folder import MetadataFolder
from kraftlog.errors import ConfigError
from kraftlog.logstate.voters import VoterSet
from kraftlog.metadata.history import Moment
from kraftlog.metadata.row_changes import RowChange
from kraftlog.metadata.tables import TABLES_OF_IMAGE, rows_of
from kraftlog.spark.pipelines import metadata_history
from kraftlog.spark.pipelines.metadata import run
from kraftlog.spark.pipelines.metadata_history import HistoryTable
from kraftlog.spark.tables import read_table
from tests.metadata.test_history import snapshot_of
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession


@pytest.fixture
def copy(
    our_node: str, named: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy of our node's data directory's metadata, with two topics, one of them deleted."""
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(named("kept"), partitions=2, configs={"retention.ms": "4000"})
        client.create_topic(named("gone"), partitions=1)
        client.delete_topic(named("gone"))
        [folder] = client.log_dirs()[1]
    data = tmp_path_factory.mktemp("copy") / "data"
    name = "__cluster_metadata-0"
    shutil.copytree(f"{folder.log_dir}/{name}", data / name)
    shutil.copy(f"{folder.log_dir}/meta.properties", data)
    return data


def rows_in(path: Path) -> list[dict[str, Any]]:
    table = DeltaTable(str(path)).to_pyarrow_table()
    return list(table.sort_by([("offset", "ascending"), ("number", "ascending")]).to_pylist())


def newest_rows(changes: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """The tables after these changes, by table and key."""
    rows = {
        (each["table_name"], each["key"]): each["after"]
        for each in changes
        if each["table_name"] != "quorum"
    }
    return {place: after for place, after in rows.items() if after is not None}


def appended(capsys: pytest.CaptureFixture[str], *arguments: object) -> int:
    assert run([*map(str, arguments), "--json"]) == 0
    count: int = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    return count


def test_runs_append_each_change_once_and_all_add_up(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until an offset, until the end, and again; the rows are the tables, and those of one run."""
    path = tmp_path / "history"
    words = ["--data", copy, "--history", path]
    state = MetadataFolder(str(copy)).state_at(Moment())
    middle = state.offset // 2
    count = appended(capsys, *words, "--dry-run")
    monkeypatch.setattr(metadata_history, "COMMIT_ROWS", 1 + count // 5)
    assert not path.exists()
    first = appended(capsys, *words, "--as-of", middle)
    assert first == len(rows_in(path)) > 0
    assert max(row["offset"] for row in rows_in(path)) <= middle
    second = appended(capsys, *words)
    version = DeltaTable(str(path)).version()
    assert [appended(capsys, *words), appended(capsys, *words, "--as-of", 1)] == [0, 0]
    assert DeltaTable(str(path)).version() == version >= 3
    whole = tmp_path / "whole"
    assert appended(capsys, "--data", copy, "--history", whole) == first + second == count
    assert rows_in(whole) == rows_in(path)
    newest = newest_rows(rows_in(path))
    for name in TABLES_OF_IMAGE:
        shown = [
            {**json.loads(key), **json.loads(after)}
            for (table, key), after in newest.items()
            if table == name
        ]
        assert sorted(map(str, shown)) == sorted(map(str, rows_of(state, name)))


def test_a_row_has_time_leader_record_key_and_values(
    our_node: str,
    copy: Path,
    tmp_path: Path,
    named: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Read from the cluster; a copy of its log is continued there."""
    path = tmp_path / "history"
    appended(capsys, "--data", copy, "--history", path, "--as-of", 5)
    appended(capsys, "-b", our_node, "--history", path)
    rows = rows_in(path)
    gone = [row for row in rows if named("gone") in row["key"]]
    key = f'{{"topic":"{named("gone")}","partition":0}}'
    assert [(row["record"], row["table_name"]) for row in gone if row["key"] == key] == [
        ("PartitionRecord", "partitions"),
        ("RemoveTopicRecord", "partitions"),
    ]
    created, removed = (row for row in gone if row["key"] == key)
    assert created["before"] is removed["after"] is None
    assert created["after"] == removed["before"]
    assert json.loads(created["after"])["leader"] == created["leader"] == 1
    assert created["offset"] < removed["offset"]
    assert created["timestamp"] <= removed["timestamp"]
    [retention] = [row for row in rows if named("kept") in row["key"] and "retention" in row["key"]]
    assert (retention["table_name"], retention["after"]) == ("configs", '{"value":"4000"}')
    [quorum, *_] = [row for row in rows if row["table_name"] == "quorum"]
    assert (quorum["record"], quorum["key"], quorum["leader"]) == ("LeaderChange", "{}", 1)


def test_of_two_runs_with_the_same_changes_one_is_refused(copy: Path, tmp_path: Path) -> None:
    """Both for a new table and for one that exists."""
    path = str(tmp_path / "history")
    middle = Moment(offset=MetadataFolder(str(copy)).state_at(Moment()).offset // 2)
    for until in (middle, Moment()):
        first, second = HistoryTable(path), HistoryTable(path)
        assert first.append(MetadataFolder(str(copy)), until).rows > 0
        rows = rows_in(tmp_path / "history")
        with pytest.raises(ConfigError, match="another process has appended"):
            second.append(MetadataFolder(str(copy)), until)
        assert rows_in(tmp_path / "history") == rows


def test_a_snapshot_stands_for_records_that_are_deleted(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows continue those of the table, and the offsets in between are named."""
    whole, path = tmp_path / "whole", tmp_path / "history"
    appended(capsys, "--data", copy, "--history", whole)
    folder = MetadataFolder(str(copy))
    last = folder.state_at(Moment())
    appended(capsys, "--data", copy, "--history", path, "--as-of", last.offset // 2)
    end = rows_in(path)[-1]["offset"] + 1
    log = copy / "__cluster_metadata-0"
    snapshot = log / f"{last.offset + 1:020d}-{last.epoch:010d}.checkpoint"
    voters = last.voters or VoterSet()
    snapshot.write_bytes(snapshot_of(last.image, last.offset + 1, last.time_ms, voters))
    for segment in log.glob("*.log"):
        segment.unlink()
    (log / f"{last.offset + 1:020d}.log").write_bytes(b"")
    assert run(["--data", str(copy), "--history", str(path)]) == 0
    output = capsys.readouterr()
    assert f"the records at offsets {end} to {last.offset} were deleted before" in output.err
    newest = rows_in(path)[-1]
    assert (newest["record"], newest["offset"]) == ("Snapshot", last.offset)
    assert newest_rows(rows_in(path)) == newest_rows(rows_in(whole))
    assert run(["--data", str(copy), "--history", str(tmp_path / "n"), "--as-of", "1"]) == 1
    assert "earlier states of the cluster cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--diff", "1", "2"], ["--table", "topics"], ["--to", "x"]])
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run(["--data", str(tmp_path), "--history", str(tmp_path / "h"), *words]) == 2
    words_of_error = "--history cannot be combined with --diff, --to or --table"
    assert words_of_error in capsys.readouterr().err


def test_a_directory_of_something_else_is_refused(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another table, no table, the changes of another cluster, and of another log."""

    def refusal(path: Path) -> str:
        assert run(["--data", str(copy), "--history", str(path)]) == 1
        return capsys.readouterr().err

    other = tmp_path / "other"
    write_deltalake(str(other), pa.table({"offset": [1]}))
    assert "is a Delta table, but not one of pipeline metadata --history" in refusal(other)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_text("a")
    assert "is not empty, and no Delta table" in refusal(tmp_path / "files")

    path = tmp_path / "history"
    appended(capsys, "--data", copy, "--history", path)
    meta = copy / "meta.properties"
    cluster_id = MetadataFolder(str(copy)).cluster_id
    meta.write_text(meta.read_text().replace(cluster_id, "other"))
    assert "and this is cluster other: give another directory" in refusal(path)
    meta.unlink()  # a copied log alone
    assert appended(capsys, "--data", copy, "--history", path) == 0
    state = MetadataFolder(str(copy)).state_at(Moment())
    rewritten = tmp_path / "rewritten"
    last = rows_in(path)[-1]
    changes = [
        RowChange(last["offset"], state.epoch + 1, 0, 1, "NoOpRecord", "features", ("f",), None, {})
    ]
    HistoryTable(str(rewritten))._commit(changes, "", is_dry=False)
    assert "the log has another record there" in refusal(rewritten)
    assert run(["--data", str(copy), "--history", str(path), "--as-of", "never"]) == 2


def test_spark_finds_the_leader_of_a_record(
    spark: SparkSession,
    copy: Path,
    tmp_path: Path,
    named: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The example of docs/use/spark-metadata.md: keys are texts as to_json writes them."""
    path = tmp_path / "history"
    appended(capsys, "--data", copy, "--history", path)
    read_table(spark, str(path)).createOrReplaceTempView("changes")
    [row] = spark.sql(
        f"""
        SELECT max_by(get_json_object(after, '$.leader'), struct(offset, number)) AS leader
        FROM changes
        WHERE table_name = 'partitions' AND timestamp <= now()
          AND key = to_json(named_struct('topic', '{named("kept")}', 'partition', 1))
        """
    ).collect()
    assert row.leader == "1"

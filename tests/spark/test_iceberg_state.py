"""What an Iceberg table knows of its topic, and what happens if others commit at the same time."""

from __future__ import annotations

import gzip
import os
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StaticTable

from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.archives import (
    DELTA,
    ICEBERG,
    check_format,
    create_archive,
    open_archive,
)
from kraftlog.spark.lake.iceberg.catalog import DirectoryCatalog
from kraftlog.spark.lake.iceberg.files import read_hint, version_names
from kraftlog.spark.lake.iceberg.state import recorded_state
from kraftlog.spark.lake.iceberg.table import IcebergArchive, opened
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.lake.table import LakeError
from kraftlog.spark.lake_check.opening import open_table
from tests.spark.iceberg_tampering import edit_avro

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from kraftlog.spark.lake.files import FileWriter, WrittenFile

_DAY_US = 86_400_000_000


def new_state(topic: str = "t") -> ArchiveState:
    return ArchiveState(topic, "m5r1AAAAAAAAAAAAAAAAAA", "raw", {0: 0, 1: 0}, begun_at="earliest")


def create(lake: Path, topic: str = "t", *, by_date: bool = False) -> IcebergArchive:
    table = create_archive(ICEBERG, str(lake), new_state(topic), layout.RAW, by_date=by_date)
    assert isinstance(table, IcebergArchive)
    return table


def reopened(lake: Path, topic: str = "t") -> IcebergArchive:
    table = open_archive(str(lake), topic)
    assert isinstance(table, IcebergArchive)
    return table


def written(writer: FileWriter, schema: pa.Schema, start: int, end: int) -> list[WrittenFile]:
    """Files with a record for each offset of partition 0, each of another day."""
    given = {"partition": 0, "timestampType": 0, "topic": "t"}
    records = [{**given, "offset": at, "timestamp": at * _DAY_US} for at in range(start, end)]
    writer.write(pa.RecordBatch.from_pylist(records, schema=schema))
    return writer.close()


def batch_after(
    table: IcebergArchive, end: int, query: str = "query", dead_letters: int = 0
) -> tuple[ArchiveState, list[WrittenFile]]:
    """The state after the next batch of partition 0, up to this offset, and its files."""
    old = table.state
    letters: list[WrittenFile] = []
    if dead_letters:
        os.makedirs(layout.dead_letters_path(os.path.dirname(table.path)), exist_ok=True)
        writer = table.dead_letter_writer("letters")
        letters = written(writer, layout.DEAD_LETTER, 0, dead_letters)
    start = old.offsets[0]
    state = ArchiveState(
        topic=old.topic,
        topic_id=old.topic_id,
        decode=old.decode,
        offsets={**old.offsets, 0: end},
        start=old.start,
        ranges={0: (start, end)},
        query=query,
        batch=old.batch + 1,
        rows=old.rows + end - start,
        bad=old.bad + dead_letters,
        dead_letters=tuple(letters),
        begun_at=old.begun_at,
    )
    return state, written(table.writer(f"0-{start}"), layout.RAW, start, end)


def commit(table: IcebergArchive, end: int, query: str = "query", dead_letters: int = 0) -> None:
    table.commit(*batch_after(table, end, query, dead_letters))


def offsets_of(lake: Path, topic: str = "t") -> list[int]:
    scan = StaticTable.from_metadata(str(lake / topic)).scan()
    return sorted(scan.to_arrow().column("offset").to_pylist())


def dead_letter_count(lake: Path) -> int:
    return len(StaticTable.from_metadata(str(lake / "_dead_letters")).scan().to_arrow())


def test_a_table_knows_its_offsets(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert reopened(tmp_path).is_new
    commit(table, 2)
    commit(table, 5)
    state = reopened(tmp_path).state
    assert (state.topic, state.topic_id, state.decode) == ("t", table.state.topic_id, "raw")
    assert (state.offsets, state.start) == ({0: 5, 1: 0}, {0: 0, 1: 0})
    assert (state.query, state.batch, state.rows, state.ranges) == ("query", 1, 5, {0: (2, 5)})
    table = reopened(tmp_path)
    assert [table.has_batch("query", each) for each in (0, 1, 2)] == [True, True, False]
    assert not table.has_batch("another", 0)
    assert offsets_of(tmp_path) == [0, 1, 2, 3, 4]


def test_of_two_archivers_one_commits_an_offset(tmp_path: Path) -> None:
    """PyIceberg makes the second commit again after the first one, unless it is told not to."""
    create(tmp_path)
    first, second = reopened(tmp_path), reopened(tmp_path)
    state, files = batch_after(second, 3, "another query")
    commit(first, 2)
    manifests = len(os.listdir(tmp_path / "t" / "metadata"))
    with pytest.raises(LakeError, match="another process has committed the same offsets"):
        second.commit(state, files)
    assert offsets_of(tmp_path) == [0, 1]
    assert len(os.listdir(tmp_path / "t" / "metadata")) == manifests
    second = reopened(tmp_path)
    commit(second, 3, "another query")
    assert offsets_of(tmp_path) == [0, 1, 2]


def test_pyiceberg_alone_commits_an_offset_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests of two archivers would fail without the check."""
    monkeypatch.setattr(DirectoryCatalog, "checked", lambda *_: nullcontext())
    create(tmp_path)
    first, second = reopened(tmp_path), reopened(tmp_path)
    state, files = batch_after(second, 3, "another query")
    commit(first, 2)
    second.commit(state, files)
    assert offsets_of(tmp_path) == [0, 0, 1, 1, 2]
    notes = [each.note for each in open_table(second.path, "t").findings]
    assert any("begins at offset 0 of partition 0, but the commit" in note for note in notes)


def test_two_archivers_at_the_same_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one commits after all checks, just before the new version gets its name."""
    create(tmp_path)
    first, second = reopened(tmp_path), reopened(tmp_path)
    state, files = batch_after(second, 3, "another query")
    link = os.link

    def link_after_other(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        commit(first, 2)
        link(source, target)

    monkeypatch.setattr(os, "link", link_after_other)
    with pytest.raises(LakeError, match="another process has committed the same offsets"):
        second.commit(state, files)
    assert offsets_of(tmp_path) == [0, 1]


def test_of_two_archivers_one_creates_a_table(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(LakeError, match="another process has changed"):
        create(tmp_path)


def keep_versions(path: str, count: int) -> None:
    kept = {"write.metadata.previous-versions-max": str(count)}
    opened(path).transaction().set_properties(kept).commit_transaction()


def test_a_commit_that_was_overtaken_by_many_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version's name is free again, as old versions are deleted."""
    keep_versions(create(tmp_path).path, 1)
    first, second = reopened(tmp_path), reopened(tmp_path)
    state, files = batch_after(second, 9, "another query")
    link = os.link

    def link_after_others(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        for end in (1, 2, 3, 4):
            commit(first, end)
        link(source, target)

    monkeypatch.setattr(os, "link", link_after_others)
    with pytest.raises(LakeError, match="another process has committed the same offsets"):
        second.commit(state, files)
    assert (offsets_of(tmp_path), reopened(tmp_path).state.offsets[0]) == ([0, 1, 2, 3], 4)


def set_property(path: str) -> None:
    opened(path).transaction().set_properties({"a": "b"}).commit_transaction()


def merge_files(path: str) -> None:
    table = opened(path)
    table.overwrite(table.scan().to_arrow())


def add_column(path: str) -> None:
    with opened(path).update_schema() as update:
        update.union_by_name(pa.schema([("another", pa.int64())]))


def expire_all(path: str) -> None:
    tomorrow = datetime.now() + timedelta(days=1)  # noqa: DTZ005 - as PyIceberg compares it
    opened(path).maintenance.expire_snapshots().older_than(tomorrow).commit()


@pytest.mark.parametrize("change", [set_property, merge_files, add_column, expire_all])
def test_other_programs_may_change_a_table_during_a_batch(
    tmp_path: Path, change: Callable[[str], None]
) -> None:
    table = create(tmp_path)
    commit(table, 1)
    commit(table, 2)
    state, files = batch_after(table, 3)
    change(table.path)
    table.commit(state, files)
    assert (offsets_of(tmp_path), reopened(tmp_path).state.offsets[0]) == ([0, 1, 2], 3)


def test_a_table_knows_its_offsets_when_its_snapshots_have_expired(tmp_path: Path) -> None:
    table = create(tmp_path)
    commit(table, 2)
    merge_files(table.path)
    expire_all(table.path)
    table = reopened(tmp_path)
    assert recorded_state(opened(table.path).metadata.current_snapshot()) is None
    assert (table.state.offsets, table.state.batch, table.is_new) == ({0: 2, 1: 0}, 0, False)
    commit(table, 3)
    assert offsets_of(tmp_path) == [0, 1, 2]


def roll_back(path: str, snapshot: int) -> None:
    table = opened(path)
    number = table.metadata.snapshots[snapshot].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(number).commit()


def test_a_table_that_was_rolled_back_has_the_offsets_of_its_snapshot(tmp_path: Path) -> None:
    table = create(tmp_path)
    commit(table, 2)
    commit(table, 5)
    roll_back(table.path, 0)
    table = reopened(tmp_path)
    assert table.state.offsets[0] == 2
    commit(table, 4, "a new query")
    assert offsets_of(tmp_path) == [0, 1, 2, 3]


def test_a_rollback_to_a_snapshot_that_says_nothing_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    commit(table, 2)
    merge_files(table.path)
    expire_all(table.path)
    commit(reopened(tmp_path), 5)
    roll_back(table.path, 0)
    with pytest.raises(LakeError, match="was rolled back"):
        reopened(tmp_path)


def test_a_table_by_date_has_a_file_for_each_day(tmp_path: Path) -> None:
    table = create(tmp_path, by_date=True)
    commit(table, 3)
    assert reopened(tmp_path).is_by_date
    scan = StaticTable.from_metadata(table.path).scan(
        row_filter="timestamp >= '1970-01-03T00:00:00+00:00'"
    )
    assert [each.file.partition[0] for each in scan.plan_files()] == [2]
    assert scan.to_arrow().column("offset").to_pylist() == [2]


def test_wrong_bounds_of_a_manifest_in_its_list_are_noticed(tmp_path: Path) -> None:
    """By them, readers that look for a day skip the manifest."""
    table = create(tmp_path, by_date=True)
    commit(table, 3)
    path = table._table.metadata.current_snapshot().manifest_list
    clean = open_table(table.path, "t")
    assert (clean.findings, [str(each.date) for each in clean.files]) == (
        (),
        ["1970-01-01", "1970-01-02", "1970-01-03"],
    )

    def change(records: list[dict[str, Any]]) -> None:
        records[0]["partitions"][0]["upper_bound"] = b"\x01\0\0\0"

    edit_avro(path, change)
    [finding] = open_table(table.path, "t").findings
    assert "has other values of date than its list says" in finding.note


def test_files_have_the_ids_of_columns(tmp_path: Path) -> None:
    table = create(tmp_path)
    _, [file] = batch_after(table, 1)
    schema = pa.parquet.read_schema(os.path.join(table.path, file.path))
    assert schema.field("offset").metadata[b"PARQUET:field_id"] == b"4"
    key, _ = schema.field("headers").type.value_type
    assert key.metadata[b"PARQUET:field_id"] == b"10"


def test_columns_and_fields_are_added(tmp_path: Path) -> None:
    """A file with a column that the table lacks has no ids: names decide."""
    table = create(tmp_path)
    commit(table, 1)
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    schema = layout.RAW.append(pa.field("extra", kind))
    state, _ = batch_after(table, 2)
    writer = table.writer("0-1")
    row = {"partition": 0, "offset": 1, "timestamp": 0, "extra": {"a": 5, "b": ["x"]}}
    writer.write(pa.RecordBatch.from_pylist([row], schema=schema))
    table.commit(state, writer.close())
    assert reopened(tmp_path).schema.field("extra").type == kind
    rows = StaticTable.from_metadata(table.path).scan().to_arrow().sort_by("offset").to_pylist()
    assert [each["extra"] for each in rows] == [None, {"a": 5, "b": ["x"]}]
    assert [each["offset"] for each in rows] == [0, 1]


def test_dead_letters_of_a_killed_run_are_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    commit(table, 1, dead_letters=2)
    with monkeypatch.context() as patch:
        patch.setattr(IcebergArchive, "commit_dead_letters", lambda _: None)
        commit(table, 2, dead_letters=3)
    assert dead_letter_count(tmp_path) == 2
    expire_all(table.path)
    for _ in range(2):
        reopened(tmp_path).commit_dead_letters()
        assert dead_letter_count(tmp_path) == 5


def test_dead_letters_of_two_topics_are_committed_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = create(tmp_path, "one"), create(tmp_path, "other")
    commit(one, 1, "query one", dead_letters=1)
    state, files = batch_after(other, 1, "query other", dead_letters=2)
    link = os.link

    def link_after_other(source: str, target: str) -> None:
        if "_dead_letters" in target:
            monkeypatch.setattr(os, "link", link)
            commit(one, 2, "query one", dead_letters=4)
        link(source, target)

    monkeypatch.setattr(os, "link", link_after_other)
    other.commit(state, files)
    assert dead_letter_count(tmp_path) == 7


def test_a_killed_run_may_leave_an_old_hint(tmp_path: Path) -> None:
    table = create(tmp_path)
    commit(table, 2)
    (tmp_path / "t" / "metadata" / "version-hint.text").write_text("1")
    reopened(tmp_path).prepare()
    assert read_hint(table.path) == 2
    (tmp_path / "t" / "metadata" / "version-hint.text").unlink()
    reopened(tmp_path).prepare()
    assert offsets_of(tmp_path) == [0, 1]


def test_old_versions_are_deleted(tmp_path: Path) -> None:
    path = create(tmp_path).path
    keep_versions(path, 3)
    for end in range(6):
        commit(reopened(tmp_path), end)
    assert list(version_names(path)) == [5, 6, 7, 8]
    with pytest.raises(CommitFailedException, match="has a table"):
        DirectoryCatalog(path).create(opened(path).metadata)


def test_a_table_in_another_directory_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "lake")
    (tmp_path / "lake").rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match="was moved from there"):
        open_archive(str(tmp_path / "moved"), "t")
    (tmp_path / "link").symlink_to(tmp_path / "moved")
    (tmp_path / "moved").rename(tmp_path / "lake")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    assert reopened(tmp_path / "link").is_new


def test_a_table_of_another_program_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    table._table.transaction().remove_properties("kraftlog.archive").commit_transaction()
    with pytest.raises(ConfigError, match="not one of kraftlog's"):
        open_archive(str(tmp_path), "t")


def test_tables_that_other_programs_have_changed_are_refused(tmp_path: Path) -> None:
    """They have other partitions, or metadata under another name."""
    create(tmp_path, "partitioned")._table.update_spec().add_identity("partition").commit()
    with pytest.raises(LakeError, match="is partitioned otherwise than by date"):
        open_archive(str(tmp_path), "partitioned")
    table = create(tmp_path, "compressed")
    path = os.path.join(table.path, "metadata", "v1.metadata.json")
    with open(path, "rb") as plain, gzip.open(path.replace("v1", "v2.gz"), "wb") as compressed:
        compressed.write(plain.read())
    with pytest.raises(LakeError, match="has compressed metadata"):
        open_archive(str(tmp_path), "compressed")


def test_a_table_keeps_its_format(tmp_path: Path) -> None:
    """So do the tables beside it, once there are dead letters."""
    lake = str(tmp_path)
    assert check_format(lake, "t", "") == DELTA
    assert check_format(lake, "t", ICEBERG) == ICEBERG
    table = create(tmp_path)
    assert check_format(lake, "t", "") == ICEBERG
    with pytest.raises(LakeError, match="is an Iceberg table: leave --format out"):
        check_format(lake, "t", DELTA)
    assert check_format(lake, "other", DELTA) == DELTA
    commit(table, 1, dead_letters=1)
    with pytest.raises(LakeError, match="would be a Delta table"):
        check_format(lake, "other", "")


def test_without_pyiceberg_its_tables_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path)
    monkeypatch.setattr("kraftlog.spark.lake.archives.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'kraftlog\[iceberg\]'"):
        open_archive(str(tmp_path), "t")
    with pytest.raises(ConfigError, match="Iceberg tables need PyIceberg"):
        check_format(str(tmp_path), "new", ICEBERG)

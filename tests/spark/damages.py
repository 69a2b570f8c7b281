"""Tables of what is done to copies of an archive: damage, and maintenance that is none."""

# ruff: noqa: E501 - a line for each kind of damage, so that one sees what is there

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, write_deltalake

from kraftlog.spark.lake.compaction import compact
from kraftlog.spark.lake.delta_table import DeltaArchive
from tests.spark import tampering
from tests.spark.tampering import (
    BATCH,
    COUNT,
    QUERY,
    TOPIC,
    Table,
    added,
    cast,
    changed,
    flip,
    shuffled,
    swapped,
    truncate,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Damage = Callable[[Table], object]
    Fields = list[dict[str, Any]]

ROW_NAMES = [
    "key",
    "value",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "timestampOutOfRangeMs",
]


def steps(*damages: Damage) -> Damage:
    def damage(table: Table) -> None:
        for each in damages:
            each(table)

    return damage


def append(table: Table, **values: object) -> None:
    """What any program does that writes to Delta tables: append a row."""
    write_deltalake(table.path, added(0, **values)(table.rows()).slice(BATCH), mode="append")


def resize(table: Table, by: int) -> None:
    table.edit(1, "add", lambda add: add.update(size=add["size"] + by))


def restate(table: Table, version: int = 1, **changes: object) -> None:
    """Change statistics of a file in Delta's log; a dict is merged into what is there."""

    def change(add: dict[str, str]) -> None:
        stats = json.loads(add["stats"])
        for name, value in changes.items():
            stats[name] = {**stats[name], **value} if isinstance(value, dict) else value
        add["stats"] = json.dumps(stats)

    table.edit(version, "add", change)


def restate_archive(table: Table, version: int = 2, **changes: object) -> None:
    table.edit(version, "commitInfo", lambda info: info["kraftlog"].update(changes))


def write(path: str, data: bytes, mode: str = "wb") -> None:
    with open(path, mode) as file:
        file.write(data)


def swap_files(table: Table) -> None:
    one, other = table.files[0], table.files[1]
    os.rename(one, f"{one}.old")
    os.rename(other, one)
    os.rename(f"{one}.old", other)


def add_copy(table: Table) -> None:
    """A second commit adds a copy of a file under another name."""
    copy = os.path.join(table.path, "copy.parquet")
    shutil.copy(table.files[0], copy)
    actions = [each for each in table.commit(1) if "add" in each][:1]
    actions[0]["add"]["path"] = "copy.parquet"
    table.write_commit(3, actions)


def edit_schema(table: Table, change: Callable[[Fields], None]) -> None:
    def edit(metadata: dict[str, str]) -> None:
        schema = json.loads(metadata["schemaString"])
        change(schema["fields"])
        metadata["schemaString"] = json.dumps(schema)

    table.edit(0, "metaData", edit)


def field(column: str, **changes: object) -> Callable[[Fields], None]:
    def change(fields: Fields) -> None:
        next(each for each in fields if each["name"] == column).update(changes)

    return change


def no_field(name: str) -> Callable[[Fields], None]:
    return lambda fields: fields.remove(next(each for each in fields if each["name"] == name))


def make_folder(table: Table) -> None:
    path = table.files[0]
    os.remove(path)
    os.mkdir(path)


def remove_commits(table: Table, *versions: int) -> None:
    for version in versions:
        os.remove(table.commit_path(version))


def forget_archive(table: Table) -> None:
    for version in table.versions():
        table.edit(version, "commitInfo", lambda info: info.pop("kraftlog"))


def break_vector(table: Table) -> None:
    table.edit(3, "add", lambda add: add["deletionVector"].update(pathOrInlineDv="00000"))


def compact_archive(table: Table) -> None:
    archive = DeltaArchive.open(table.lake, TOPIC)
    assert archive is not None
    assert compact(archive) == (4, 2)


def shuffle_all(table: Table) -> None:
    for file in range(len(table.files)):
        table.rewrite(shuffled, file, row_group_size=7)


def rename(table: Table, old: str, new: str) -> None:
    table.rewrite(lambda rows: rows.rename_columns({old: new}))


def transaction(table: Table, application: str, version: int | None) -> None:
    """Change the version of an application's transaction in the newest commit; None: drop it."""
    actions = []
    for action in table.commit(2):
        if action.get("txn", {}).get("appId") != application:
            actions.append(action)
        elif version is not None:
            actions.append({"txn": action["txn"] | {"version": version}})
    table.write_commit(2, actions)


def rewrite_checkpoint(table: Table, change: Callable[[pa.Table], pa.Table]) -> None:
    path = table.checkpoint()
    pq.write_table(change(pq.read_table(path)), path)
    for version in (0, 1, 2):
        os.remove(table.commit_path(version))


def dropping_add(rows: pa.Table) -> pa.Table:
    adds = [index for index, add in enumerate(rows.column("add").to_pylist()) if add]
    return rows.take([index for index in range(len(rows)) if index != adds[0]])


def renumbered(table: Table) -> None:
    """Remove a commit and close the gap."""
    os.rename(table.commit_path(2), table.commit_path(1))


def flip_page(column: str) -> Damage:
    def damage(table: Table) -> None:
        path = table.files[0]
        flip(path, dict(tampering.data_pages(path))[column])

    return damage


def of_another_program(table: Table, **settings: object) -> None:
    """Write the rows of all files into a table without a word about kraftlog."""
    rows = pa.concat_tables([table.rows(file) for file in range(len(table.files))])
    shutil.rmtree(table.path)
    write_deltalake(table.path, rows, **settings)


def without_commits(table: Table) -> None:
    """Clean up all commits that a checkpoint makes superfluous."""
    table.checkpoint()
    for version in (0, 1):
        os.remove(table.commit_path(version))


def moved_by_vector(table: Table) -> None:
    """An UPDATE hides a row by a deletion vector, and writes it to another file."""
    append(table)
    table.hide_row(0)


def merge(table: Table) -> None:
    rows = table.rows().slice(0, 10)
    merged = DeltaTable(table.path).merge(
        rows,
        "s.partition = t.partition AND s.offset = t.offset",
        source_alias="s",
        target_alias="t",
    )
    merged.when_matched_update({"value": "s.value"}).when_not_matched_insert_all().execute()


#: Name of the damage, the damage, and what the output says about it.
DAMAGES: dict[str, tuple[Damage, str]] = {
    # Rows added inside an existing file
    "added far away": (lambda t: t.rewrite(added(0, offset=5000)), "1 record not in the log at offset 5000"),
    "added far away, described": (lambda t: t.rewrite(added(0, offset=5000), described="all"), "1 record not in the log at offset 5000 (the log ends at offset 100)"),
    "added with offset -7": (lambda t: t.rewrite(added(0, offset=-7)), "1 record not in the log at offset -7"),
    "added with offset -7, described": (lambda t: t.rewrite(added(0, offset=-7), described="all"), "1 record not in the log at offset -7"),
    "added with offset null": (lambda t: t.rewrite(added(0, offset=None)), "1 record without partition or offset"),
    "added with partition null": (lambda t: t.rewrite(added(0, partition=None)), "row 50"),
    "added of partition 1": (lambda t: t.rewrite(added(3, partition=1)), "1: 1 record duplicate at offset 3"),
    "added of partition 9": (lambda t: t.rewrite(added(3, partition=9)), "9: 1 record not in the log at offset 3 (the topic has no partition 9)"),
    "added of partition 9, described": (lambda t: t.rewrite(added(3, partition=9), described="all"), "9: 1 record not in the log at offset 3"),
    "added of partition -1": (lambda t: t.rewrite(added(3, partition=-1)), "not in the log"),
    "added with an offset of the file": (lambda t: t.rewrite(added(3)), "1 record duplicate at offset 3"),
    "added with another file's offset": (lambda t: t.rewrite(added(3, offset=70)), "1 record duplicate at offset 70"),
    "added with another file's row": (lambda t: t.rewrite(lambda rows: pa.concat_tables([rows, t.rows(1).slice(0, 1)])), "1 record duplicate at offset 50"),
    "added at the log's end": (lambda t: t.rewrite(added(0, offset=COUNT)), "not in the log at offset 100"),
    "added with the largest offset": (lambda t: t.rewrite(added(0, offset=2**63 - 1)), "not in the log at offset 9223372036854775807"),
    "added with the smallest offset": (lambda t: t.rewrite(added(0, offset=-(2**63))), "not in the log at offset -9223372036854775808"),
    # Rows appended
    "appended with offset -7": (lambda t: append(t, offset=-7), "1 record not in the log at offset -7"),
    "appended with offset 5000": (lambda t: append(t, offset=5000), "1 record not in the log at offset 5000"),
    "appended with offset null": (lambda t: append(t, offset=None), "1 record without partition or offset"),
    "appended with partition null": (lambda t: append(t, partition=None), "1 record without partition or offset"),
    "appended with partition 9": (lambda t: append(t, partition=9), "the topic has no partition 9"),
    "appended again": (append, "1 record duplicate at offset 0"),
    "appended again, changed": (lambda t: append(t, value=b"X"), "1 record different at offset 0 (in value)"),
    # Rows removed
    "first row removed": (lambda t: t.rewrite(without(0), described="all"), "0: 1 record missing at offset 0"),
    "inner row removed": (lambda t: t.rewrite(without(7), described="all"), "0: 1 record missing at offset 7"),
    "last row removed": (lambda t: t.rewrite(without(49), file=1, described="all"), "0: 1 record missing at offset 99"),
    "all rows removed": (lambda t: t.rewrite(lambda rows: rows.slice(0, 0)), "50 records missing at offsets 0-49"),
    "half of the rows removed": (lambda t: t.rewrite(lambda rows: rows.slice(0, 25), described="all"), "25 records missing at offsets 25-49"),
    "removed by DELETE": (lambda t: DeltaTable(t.path).delete("offset = 12"), "0: 1 record missing at offset 12"),
    "all removed by DELETE": (lambda t: DeltaTable(t.path).delete(), "0: 100 records missing at offsets 0-99"),
    # Rows changed
    "value changed": (lambda t: t.rewrite(changed(3, value=b"X")), "1 record different at offset 3 (in value)"),
    "value null": (lambda t: t.rewrite(changed(3, value=None)), "1 record different at offset 3 (in value)"),
    "null made empty": (lambda t: t.rewrite(changed(0, value=b"")), "1 record different at offset 0 (in value)"),
    "key changed": (lambda t: t.rewrite(changed(3, key=b"X")), "1 record different at offset 3 (in key)"),
    "time changed": (lambda t: t.rewrite(lambda rows: changed(3, timestamp=rows.column("timestamp")[3].as_py().replace(year=2001))(rows)), "1 record different at offset 3 (in timestamp)"),
    "time null": (lambda t: t.rewrite(changed(3, timestamp=None)), "1 record different at offset 3 (in timestamp)"),
    "kind of time changed": (lambda t: t.rewrite(changed(3, timestampType=1)), "1 record different at offset 3 (in timestampType)"),
    "header changed": (lambda t: t.rewrite(changed(4, headers=[{"key": "name", "value": b"2"}, {"key": "none", "value": None}])), "1 record different at offset 4 (in headers)"),
    "header removed": (lambda t: t.rewrite(changed(4, headers=[{"key": "name", "value": b"1"}])), "1 record different at offset 4 (in headers)"),
    "header added": (lambda t: t.rewrite(changed(3, headers=[{"key": "name", "value": None}])), "1 record different at offset 3 (in headers)"),
    "borders of values moved": (lambda t: t.rewrite(lambda rows: changed(7, value=b"value 1")(changed(8, value=b"4value 16")(rows))), "2 records different at offsets 7-8 (in value)"),
    "changed by UPDATE": (lambda t: DeltaTable(t.path).update(predicate="offset = 5", updates={"timestampType": "1"}), "1: 1 record different at offset 5 (in timestampType)"),
    # Rows moved
    "moved far away": (lambda t: t.rewrite(changed(7, offset=5000)), "1 record missing at offset 7"),
    "moved to offset null": (lambda t: t.rewrite(changed(7, offset=None)), "1 record missing at offset 7"),
    "moved to another partition": (lambda t: t.rewrite(changed(7, partition=1)), "1: 1 record duplicate at offset 7"),
    "moved to another file's offset": (lambda t: t.rewrite(changed(7, offset=70)), "1 record duplicate at offset 70"),
    "offsets swapped": (lambda t: t.rewrite(swapped("offset", 3, 9)), "2 records different at offsets 3, 9"),
    "values swapped": (lambda t: t.rewrite(swapped("value", 3, 9)), "2 records different at offsets 3, 9 (in value)"),
    "all offsets moved by one": (lambda t: t.rewrite(lambda rows: rows.set_column(3, "offset", pa.array([o + 1 for o in rows.column("offset").to_pylist()])), described="all"), "1 record missing at offset 0"),
    # Files
    "file removed": (lambda t: os.remove(t.files[0]), "does not exist"),
    "file emptied": (lambda t: truncate(t.files[0], 0), "cannot be read"),
    "file cut": (lambda t: truncate(t.files[0], 0.5), "cannot be read"),
    "file swapped": (swap_files, "Delta's log says"),
    "file without meaning": (lambda t: write(t.files[0], b"PAR1" * 50), "cannot be read"),
    "file is a directory": (make_folder, "cannot be read"),
    "file added twice": (add_copy, "50 records duplicate at offsets 0-49"),
    "file with bytes appended": (lambda t: write(t.files[0], b"x", "ab"), "cannot be read"),
    "footer flipped": (lambda t: flip(t.files[0], -20), "cannot be read"),
    "magic flipped": (lambda t: flip(t.files[0], -1), "cannot be read"),
    **{
        f"data of {name} flipped": (flip_page(name), "0-49")
        for name in ("key", "value")
    },
    "value's column missing in a file": (lambda t: t.rewrite(lambda rows: rows.drop_columns(["value"])), "different"),
    "offset's column missing in a file": (lambda t: t.rewrite(lambda rows: rows.drop_columns(["offset"])), "50 records without partition or offset"),
    "partition's column missing in a file": (lambda t: t.rewrite(lambda rows: rows.drop_columns(["partition"])), "50 records without partition or offset"),
    "all columns missing in a file": (lambda t: t.rewrite(lambda rows: pa.table({"x": rows.column("offset")})), "50 records without partition or offset"),
    "value's column renamed in a file": (lambda t: rename(t, "value", "valeu"), "different"),
    "offset's column renamed in a file": (lambda t: rename(t, "offset", "offest"), "50 records without partition or offset"),
    "value of another type in a file": (lambda t: t.rewrite(lambda rows: rows.set_column(1, "value", pa.array(range(BATCH)))), "column value has type int64"),
    "offset of another type in a file": (lambda t: t.rewrite(cast("offset", pa.string())), "cannot be read"),
    "headers of another type in a file": (lambda t: t.rewrite(lambda rows: rows.set_column(6, "headers", pa.array(range(BATCH)))), "column headers has type int64"),
    # What Delta's log says of files
    "size larger": (lambda t: resize(t, 1), "Delta's log says"),
    "size smaller": (lambda t: resize(t, -1), "Delta's log says"),
    "more rows said": (lambda t: restate(t, numRecords=51), "it has 50 rows, Delta's log says 51"),
    "fewer rows said": (lambda t: restate(t, numRecords=49), "it has 50 rows, Delta's log says 49"),
    "no rows said": (lambda t: restate(t, numRecords=0), "it has 50 rows, Delta's log says 0"),
    "smaller offsets said": (lambda t: restate(t, maxValues={"offset": 20}), "its offsets are 0 to 49, Delta's log says 0 to 20"),
    "larger offsets said": (lambda t: restate(t, maxValues={"offset": 60}), "its offsets are 0 to 49, Delta's log says 0 to 60"),
    "no offsets said": (lambda t: restate(t, minValues={"offset": 60}, maxValues={"offset": 20}), "Delta's log says 60 to 20"),
    "another partition said": (lambda t: restate(t, minValues={"partition": 1}, maxValues={"partition": 1}), "its partitions are 0 to 0, Delta's log says 1 to 1"),
    "other times said": (lambda t: restate(t, maxValues={"timestamp": "2001-01-01T00:00:00.000Z"}), "Delta's log says"),
    "nulls said": (lambda t: restate(t, nullCount={"offset": 50}), "0 offsets are null, Delta's log says 50"),
    "null times said": (lambda t: restate(t, nullCount={"timestamp": 50}), "0 timestamps are null, Delta's log says 50"),
    "path changed": (lambda t: t.edit(1, "add", lambda add: add.update(path="other.parquet")), "does not exist"),
    # Commits
    "inner commit removed": (lambda t: os.remove(t.commit_path(1)), "commit 1 is missing"),
    "first commit removed": (lambda t: os.remove(t.commit_path(0)), "cannot be opened"),
    "newest commit removed": (lambda t: os.remove(t.commit_path(2)), "a commit was removed"),
    "commit removed, others renumbered": (renumbered, "50 records missing at offsets 0-49"),
    "all commits removed": (lambda t: remove_commits(t, 0, 1, 2), "there is no commit"),
    "commit repeated": (lambda t: shutil.copy(t.commit_path(2), t.commit_path(3)), "which the table has already"),
    "older commit repeated": (lambda t: shutil.copy(t.commit_path(1), t.commit_path(3)), "which the table has already"),
    "commit far ahead": (lambda t: shutil.copy(t.commit_path(2), t.commit_path(10**19)), "commits 3 to 9999999999999999999 are missing"),
    "commit cut": (lambda t: truncate(t.commit_path(1), 0.5), "commit 1 cannot be read"),
    "commit emptied": (lambda t: truncate(t.commit_path(1), 0), "commit 1 is empty"),
    "commit no JSON": (lambda t: write(t.commit_path(1), b"orders\n"), "commit 1 cannot be read"),
    "commit other JSON": (lambda t: write(t.commit_path(1), b"[1]\n7\n"), "commit 1"),
    "commit of deep JSON": (lambda t: write(t.commit_path(1), b"[" * 100_000), "commit 1 cannot be read"),
    "commit flipped": (lambda t: flip(t.commit_path(1), 2), "begins at offset 50"),
    "file not added": (lambda t: t.drop(1, "add"), "50 records missing at offsets 0-49"),
    "file removed by a commit": (lambda t: t.write_commit(3, [{"remove": {"path": os.path.basename(t.files[0]), "dataChange": True, "deletionTimestamp": 1}}]), "50 records missing at offsets 0-49"),
    "no protocol": (lambda t: t.drop(0, "protocol"), "cannot be opened"),
    "no metadata": (lambda t: t.drop(0, "metaData"), "cannot be opened"),
    "unknown protocol": (lambda t: t.edit(0, "protocol", lambda p: p.update(minReaderVersion=99)), "cannot be opened"),
    "query's transaction dropped": (lambda t: transaction(t, QUERY, None), "the newest transaction is 0"),
    "query's transaction changed": (lambda t: transaction(t, QUERY, 7), "the newest transaction is 7"),
    "offset's transaction dropped": (lambda t: transaction(t, "kraftlog.offset.0", None), "the table keeps says {'0': 50"),
    "offset's transaction changed": (lambda t: transaction(t, "kraftlog.offset.0", 7), "the table keeps says {'0': 7"),
    "archive's property changed": (lambda t: t.edit(0, "metaData", lambda it: it["configuration"].update({"kraftlog.archive": "{}"})), "the property kraftlog.archive or a commit cannot be read"),
    "archive's rows changed": (lambda t: restate_archive(t, rows=201), "the archive wrote 201 rows, and there are 200"),
    "archive's dead letters changed": (lambda t: restate_archive(t, bad=1), "the archive wrote 1 dead letter, and there are 0"),
    "archive's end lowered": (lambda t: restate_archive(t, offsets={"0": 90, "1": 100}), "says that partition 0 ends at 90 and at 100"),
    "archive's end raised": (lambda t: restate_archive(t, offsets={"0": 120, "1": 100}), "ends at 120 and at 100"),
    "archive's range cut": (lambda t: restate_archive(t, ranges={"0": [60, 100], "1": [50, 100]}), "begins at offset 60 of partition 0"),
    "archive's topic changed": (lambda t: restate_archive(t, 1, topicId="AAAAAAAAAAAAAAAAAAAAAg"), "another topic id"),
    "archive's state gone": (forget_archive, "no commit has the archive's offsets"),
    # Checkpoints
    "checkpoint cut": (lambda t: truncate(t.checkpoint(), 0.5), "checkpoint"),
    "checkpoint emptied": (lambda t: truncate(t.checkpoint(), 0), "checkpoint"),
    "checkpoint flipped": (lambda t: flip(t.checkpoint(), -1), "checkpoint"),
    "checkpoint removed": (lambda t: os.remove(t.checkpoint()), "which does not exist"),
    "checkpoint's pointer no JSON": (steps(Table.checkpoint, lambda t: write(os.path.join(t.log, "_last_checkpoint"), b"{")), "_last_checkpoint cannot be read"),
    "checkpoint lacks a file": (lambda t: rewrite_checkpoint(t, dropping_add), "50 records missing"),
    "commit edited before the checkpoint": (steps(Table.checkpoint, lambda t: t.drop(1, "add")), "a checkpoint and the commits do not agree"),
    # Deletion vectors
    "row hidden": (lambda t: t.hide_row(5), "0: 1 record missing at offset 5"),
    "deletion vector broken": (steps(lambda t: t.hide_row(5), break_vector), "deletion vector"),
    # The table's columns
    "column value missing": (lambda t: edit_schema(t, no_field("value")), "the table has no column value"),
    "column offset missing": (lambda t: edit_schema(t, no_field("offset")), "the table has no column offset"),
    "column partition missing": (lambda t: edit_schema(t, no_field("partition")), "the table has no column partition"),
    "column headers missing": (lambda t: edit_schema(t, no_field("headers")), "the table has no column headers"),
    "column value renamed": (lambda t: edit_schema(t, field("value", name="valeu")), "the table has no column value"),
    "column key of another type": (lambda t: edit_schema(t, field("key", type="long")), "column key has type int64"),
    "column time of another type": (lambda t: edit_schema(t, field("timestamp", type="long")), "column timestamp has type int64"),
    "column offset of another type": (lambda t: edit_schema(t, field("offset", type="string")), "column offset has type string"),
}  # fmt: skip


#: Name of what leaves the records as they are, and how it is done.
MAINTENANCE: dict[str, Damage] = {
    "nothing": steps(),
    "compaction": lambda t: DeltaTable(t.path).optimize.compact(),
    "order by a column": lambda t: DeltaTable(t.path).optimize.z_order(["timestamp"]),
    "vacuum": steps(lambda t: DeltaTable(t.path).optimize.compact(), lambda t: DeltaTable(t.path).vacuum(0, dry_run=False, enforce_retention_duration=False)),
    "compaction of the archive": compact_archive,
    "checkpoint": Table.checkpoint,
    "cleanup of the log": without_commits,
    "cleanup of all commits of the archive": steps(lambda t: DeltaTable(t.path).optimize.compact(), Table.checkpoint, lambda t: remove_commits(t, 0, 1, 2)),
    "cleanup by the library": steps(Table.checkpoint, lambda t: DeltaTable(t.path).cleanup_metadata()),
    "UPDATE that changes nothing": lambda t: DeltaTable(t.path).update(predicate="offset < 7", updates={"timestampType": "timestampType"}),
    "UPDATE of all rows": lambda t: DeltaTable(t.path).update(updates={"value": "value"}),
    "UPDATE of no row": lambda t: DeltaTable(t.path).update(predicate="offset > 7000", updates={"timestampType": "1"}),
    "DELETE of no row": lambda t: DeltaTable(t.path).delete("offset < 0"),
    "MERGE of equal rows": merge,
    "deletion vector": moved_by_vector,
    "appended nothing": lambda t: write_deltalake(t.path, t.rows().slice(0, 0), mode="append"),
    "restored": steps(lambda t: DeltaTable(t.path).delete("offset = 3"), lambda t: DeltaTable(t.path).restore(2)),
    "property set": lambda t: DeltaTable(t.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"}),
    "constraint added": lambda t: DeltaTable(t.path).alter.add_constraint({"positive": "offset >= 0"}),
    "column added": lambda t: DeltaTable(t.path).alter.add_columns([Field("note", "string")]),
    "rows in another order": lambda t: t.rewrite(shuffled),
    "rows in another order, of all files": shuffle_all,
    "row groups": lambda t: t.rewrite(lambda rows: rows, row_group_size=9),
    "no statistics in a file": lambda t: t.rewrite(lambda rows: rows, write_statistics=False),
    "statistics gone": lambda t: t.edit(1, "add", lambda add: add.update(stats=None)),
    "statistics computed again": lambda t: t.write_commit(3, [{"add": {**each["add"], "dataChange": False}} for each in t.commit(1) if "add" in each]),
    "larger types in a file": lambda t: t.rewrite(lambda rows: cast("key", pa.large_binary())(cast("partition", pa.int64())(rows))),
    "views in a file": lambda t: t.rewrite(lambda rows: cast("key", pa.binary_view())(cast("value", pa.binary_view())(rows))),
    "another column in a file": lambda t: t.rewrite(lambda rows: rows.append_column("x", rows.column("offset"))),
    "columns in another order": lambda t: t.rewrite(lambda rows: rows.select(ROW_NAMES[::-1])),
    "empty list of headers": lambda t: t.rewrite(changed(3, headers=[])),
    "an orphan": lambda t: shutil.copy(t.files[0], os.path.join(t.path, "orphan.parquet")),
    "no checkpoint of the query": lambda t: shutil.rmtree(os.path.join(t.lake, "_kraftlog")),
    "an older checkpoint of the query": lambda t: os.remove(os.path.join(t.lake, "_kraftlog", TOPIC, "checkpoint", "commits", "1")),
    "of another program": of_another_program,
    "of another program, by partition": lambda t: of_another_program(t, partition_by=["partition"]),
    "of another program, without statistics": lambda t: of_another_program(t, configuration={"delta.dataSkippingNumIndexedCols": "0"}),
}  # fmt: skip

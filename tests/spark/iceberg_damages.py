"""Tables of what is done to an Iceberg archive: damage, and maintenance that is none."""

# ruff: noqa: E501 - a line for each kind of damage, so that one sees what is there

from __future__ import annotations

import json
import os
import shutil
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kraftlog.spark.lake.archives import open_archive
from tests.spark.iceberg_tampering import TOPIC, IcebergTable, edit_avro, set_bound
from tests.spark.tampering import added, changed, flip, shuffled, swapped, truncate, without

if TYPE_CHECKING:
    from collections.abc import Callable

    Damage = Callable[[IcebergTable], object]
    Metadata = dict[str, Any]


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def append(table: IcebergTable, **values: object) -> None:
    """What any program does that writes to Iceberg tables: append a row."""
    row = added(0, **values)(table.rows()).slice(50)
    table.open().append(row)


def swap_files(table: IcebergTable) -> None:
    one, other = table.files[0], table.files[1]
    os.rename(one, f"{one}.old")
    os.rename(other, one)
    os.rename(f"{one}.old", other)


def swap_ids(table: IcebergTable, one: str, other: str) -> None:
    """Give two columns of a file each other's id, by which readers know them."""

    def swap(rows: pa.Table) -> pa.Table:
        schema = rows.schema
        for name, source in ((one, other), (other, one)):
            field = rows.schema.field(name).with_metadata(rows.schema.field(source).metadata)
            schema = schema.set(schema.get_field_index(name), field)
        return pa.Table.from_arrays(rows.columns, schema=schema)

    table.rewrite(swap)


def swap_header_ids(table: IcebergTable) -> None:
    def swap(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index("headers")
        headers = rows.schema.field(index)
        element = headers.type.value_field
        one, other = element.type
        fields = pa.struct([one.with_metadata(other.metadata), other.with_metadata(one.metadata)])
        field = headers.with_type(pa.list_(element.with_type(fields)))
        return pa.Table.from_arrays(rows.columns, schema=rows.schema.set(index, field))

    table.rewrite(swap)


def without_ids(rows: pa.Table) -> pa.Table:
    def bare(field: pa.Field) -> pa.Field:
        kind = field.type
        if pa.types.is_struct(kind):
            kind = pa.struct([bare(each) for each in kind])
        elif pa.types.is_list(kind):
            kind = pa.list_(bare(kind.value_field))
        return pa.field(field.name, kind)

    schema = pa.schema([bare(field) for field in rows.schema])
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)],
        schema=schema,
    )


def drop_property(name: str) -> Callable[[Metadata], object]:
    return lambda metadata: metadata["properties"].pop(name)


def restate_property(metadata: Metadata, **changes: object) -> None:
    kept = json.loads(metadata["properties"]["kraftlog.state"])
    kept["state"].update(changes)
    metadata["properties"]["kraftlog.state"] = json.dumps(kept)


def restate_summary(metadata: Metadata, snapshot: int, **changes: object) -> None:
    summary = metadata["snapshots"][snapshot]["summary"]
    summary["kraftlog"] = json.dumps(json.loads(summary["kraftlog"]) | changes)


def forget_archive(metadata: Metadata) -> None:
    for name in ("kraftlog.archive", "kraftlog.state"):
        metadata["properties"].pop(name)
    for snapshot in metadata["snapshots"]:
        snapshot["summary"].pop("kraftlog")


def rename_column(metadata: Metadata, one: str, other: str) -> None:
    """Two columns change their names in the schema, so that readers see the other's values."""
    fields = {each["name"]: each for each in metadata["schemas"][0]["fields"]}
    fields[one]["name"], fields[other]["name"] = other, one


def make_current(metadata: Metadata, snapshot: int) -> None:
    number = metadata["snapshots"][snapshot]["snapshot-id"]
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = number


def delete_positions(
    table: IcebergTable, content: int = 1, file: int = 0, sequence: int = 2
) -> None:
    """Hide a row, by a file of deleted positions and a manifest that names it."""
    path = os.path.join(table.path, "deletes.parquet")
    rows = {"file_path": [table.files[file]], "pos": pa.array([7], pa.int64())}
    pq.write_table(pa.table(rows), path)
    manifest = os.path.join(table.path, "metadata", "deletes.avro")
    shutil.copy(table.manifests()[0], manifest)

    def describe(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        described = records[0]["data_file"]
        described.update(
            content=content,
            file_path=path,
            record_count=1,
            file_size_in_bytes=os.path.getsize(path),
        )
        for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
            described[name] = []
        if content == 2:
            described["equality_ids"] = [4]
        return records[:1]

    edit_avro(manifest, describe)

    def name(records: list[dict[str, Any]]) -> None:
        size = os.path.getsize(manifest)
        counts = {"added_files_count": 1, "added_rows_count": 1}
        counts |= {"sequence_number": sequence, "min_sequence_number": sequence}
        records.append(
            {
                **records[0],
                "manifest_path": manifest,
                "manifest_length": size,
                "content": 1,
                **counts,
            }
        )

    table.edit_list(name)
    totals = {"total-delete-files": "1"}
    table.edit(lambda metadata: metadata["snapshots"][-1]["summary"].update(totals))


def delete_before(table: IcebergTable) -> None:
    """Delete a position of a file that was added later, which by the specification has no effect.

    PyIceberg 0.12 hides the row all the same, if the file of positions belongs to another file, too.
    """
    delete_positions(table, file=1, sequence=1)


def roll_back(table: IcebergTable) -> None:
    opened = table.open()
    opened.manage_snapshots().rollback_to_snapshot(
        opened.metadata.snapshots[0].snapshot_id
    ).commit()


def expire(table: IcebergTable) -> None:
    """Expire all snapshots but the current one."""
    opened = table.open()
    opened.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(days=1)).commit()  # noqa: DTZ005 - as PyIceberg compares it
    for path in os.listdir(os.path.join(table.path, "metadata")):
        if path.startswith("snap-") and not table.manifest_list().endswith(path):
            os.remove(table.metadata_path(path))


def rewrite_all(table: IcebergTable) -> None:
    """What programs do that merge files: the same rows in another file, by one commit."""
    opened = table.open()
    opened.overwrite(opened.scan().to_arrow())


def steps(*damages: Damage) -> Damage:
    def damage(table: IcebergTable) -> None:
        for each in damages:
            each(table)

    return damage


def replace_newest(table: IcebergTable, text: str) -> None:
    write(table.newest(), text)


def remove_versions(table: IcebergTable, *versions: int) -> None:
    for version in versions:
        os.remove(table.metadata_path(f"v{version}.metadata.json"))


def archive_columns(table: IcebergTable) -> None:
    archive = open_archive(table.lake, TOPIC)
    assert archive is not None
    archive.add_columns([pa.field("note", pa.string())])


META = "damaged Iceberg metadata"

#: Name of the damage, the damage, and what the output says about it.
DAMAGES: dict[str, tuple[Damage, str]] = {
    # Rows
    "row added": (lambda t: t.rewrite(added(3)), "1 record duplicate at offset 3"),
    "row added far away, described": (lambda t: t.rewrite(added(0, offset=5000), described="all"), "1 record not in the log at offset 5000"),
    "row added without offset": (lambda t: t.rewrite(added(0, offset=None)), "1 record without partition or offset"),
    "row removed, described": (lambda t: t.rewrite(without(7), described="all"), "1 record missing at offset 7"),
    "value changed": (lambda t: t.rewrite(changed(3, value=b"X")), "1 record different at offset 3 (in value)"),
    "values swapped": (lambda t: t.rewrite(swapped("value", 3, 9)), "2 records different at offsets 3, 9 (in value)"),
    "row moved to another partition": (lambda t: t.rewrite(changed(7, partition=1)), "1: 1 record duplicate at offset 7"),
    "row appended again": (append, "1 record duplicate at offset 0"),
    "row appended far away": (lambda t: append(t, offset=5000), "1 record not in the log at offset 5000"),
    "row deleted": (lambda t: t.open().delete("partition = 0 and offset = 12"), "0: 1 record missing at offset 12"),
    "all rows deleted": (lambda t: t.open().delete(), "0: 100 records missing at offsets 0-99"),
    "row hidden by position": (delete_positions, "0: 1 record missing at offset 7"),
    "rows hidden by value": (lambda t: delete_positions(t, 2), "a kind that is not read here"),
    # Files of records
    "file removed": (lambda t: os.remove(t.files[0]), "does not exist"),
    "file cut": (lambda t: truncate(t.files[0], 0.5), "cannot be read"),
    "files swapped": (swap_files, "the manifest says"),
    "ids of a file's columns swapped": (lambda t: swap_ids(t, "key", "value"), "its column key has id 2"),
    "ids of a file's headers swapped": (swap_header_ids, "its column headers.element.key has id 11"),
    "file without ids, and no mapping of names": (steps(lambda t: t.rewrite(without_ids), lambda t: t.edit(drop_property("schema.name-mapping.default"))), "the table maps no names"),
    # Manifests
    "manifest removed": (lambda t: os.remove(t.manifests()[0]), "cannot be read"),
    "manifest emptied": (lambda t: truncate(t.manifests()[0], 0), "cannot be read"),
    "manifest cut": (lambda t: truncate(t.manifests()[0], 0.5), "cannot be read"),
    "manifest flipped": (lambda t: flip(t.manifests()[0], -5), META),
    "manifest's sync marker flipped": (lambda t: flip(t.manifests()[0], -16), "cannot be read"),
    "list's sync marker flipped": (lambda t: flip(t.manifest_list(), -16), "cannot be read"),
    "manifest without a file": (lambda t: t.edit_manifest(lambda records: records[1:]), "50 records missing"),
    "manifest with a file twice": (lambda t: t.edit_manifest(lambda records: [*records, records[0]]), "which the table has already"),
    "manifest with a file that is deleted": (lambda t: t.edit_manifest(lambda records: records[0].update(status=2)), "50 records missing"),
    "manifest with another size of a file": (lambda t: t.edit_file(lambda file: file.update(file_size_in_bytes=7)), "the manifest says 7"),
    "manifest with another count of records": (lambda t: t.edit_file(lambda file: file.update(record_count=49)), "the manifest says 49"),
    "manifest with other bounds": (lambda t: t.edit_file(lambda file: set_bound(file, "upper_bounds", 60)), "the manifest says"),
    "manifest with broken bounds": (lambda t: t.edit_file(lambda file: file["upper_bounds"][1].update(value=b"x")), "cannot be read"),
    "manifest with another count of nulls": (lambda t: t.edit_file(lambda file: file["null_value_counts"][1].update(value=3)), "the manifest says 3"),
    "manifest with another count of values": (lambda t: t.edit_file(lambda file: file["value_counts"][1].update(value=3)), "3 values of"),
    "manifest with a file elsewhere": (lambda t: t.edit_file(lambda file: file.update(file_path=shutil.copy(t.files[2], os.path.join(t.lake, "copy.parquet")))), "outside of the table's directory"),
    # The list of manifests
    "list removed": (lambda t: os.remove(t.manifest_list()), "list of manifests"),
    "list cut": (lambda t: truncate(t.manifest_list(), 0.5), "list of manifests"),
    "list without a manifest": (lambda t: t.edit_list(lambda records: records[1:]), "50 records missing"),
    "list with a manifest twice": (lambda t: t.edit_list(lambda records: [*records, records[0]]), "which the table has already"),
    "list with another count of rows": (lambda t: t.edit_list(lambda records: records[0].update(added_rows_count=7)), "its list says 7"),
    "list with another size of a manifest": (lambda t: t.edit_list(lambda records: records[0].update(manifest_length=7)), "its list says 7"),
    "list of another snapshot": (lambda t: shutil.copy(next(each.manifest_list for each in t.open().metadata.snapshots), t.manifest_list()), "50 records missing"),
    "list of an older snapshot removed": (lambda t: os.remove(t.open().metadata.snapshots[0].manifest_list), "is missing"),
    # Versions
    "newest version removed": (lambda t: remove_versions(t, 3), "names version 3, which does not exist"),
    "newest version removed, and the hint changed": (steps(lambda t: remove_versions(t, 3), lambda t: write(t.metadata_path("version-hint.text"), "2")), "a commit was removed"),
    "inner version removed": (lambda t: remove_versions(t, 2), "version 2 is missing"),
    "first version removed": (lambda t: remove_versions(t, 1), "v1.metadata.json is missing"),
    "inner version broken": (lambda t: write(t.metadata_path("v2.metadata.json"), "{"), "version 2 cannot be read"),
    "newest version emptied": (lambda t: replace_newest(t, ""), "cannot be opened"),
    "newest version without meaning": (lambda t: replace_newest(t, "[]"), "cannot be opened"),
    "newest version cut": (lambda t: truncate(t.newest(), 0.5), "cannot be opened"),
    "all versions removed": (lambda t: remove_versions(t, 1, 2, 3), "there is no version"),
    "hint removed": (lambda t: os.remove(t.metadata_path("version-hint.text")), "version-hint.text cannot be read"),
    "hint without meaning": (lambda t: write(t.metadata_path("version-hint.text"), "x"), "version-hint.text cannot be read"),
    "hint of an old version": (lambda t: write(t.metadata_path("version-hint.text"), "1"), "names version 1, and the newest is 3"),
    "hint of no version": (lambda t: write(t.metadata_path("version-hint.text"), "9"), "names version 9, which does not exist"),
    # Snapshots and schema
    "rolled back": (roll_back, "a commit was removed"),
    "another snapshot made the current one": (lambda t: t.edit(lambda metadata: make_current(metadata, 0)), "snapshot log is not the current snapshot"),
    "branch main elsewhere": (lambda t: t.edit(lambda metadata: metadata["refs"]["main"].update({"snapshot-id": metadata["snapshots"][0]["snapshot-id"]})), META),
    "no current snapshot": (lambda t: t.edit(lambda metadata: (metadata.pop("current-snapshot-id"), metadata.pop("refs"))), "100 records missing"),
    "snapshot forgotten": (lambda t: t.edit(lambda metadata: metadata["snapshots"].pop()), META),
    "batch that begins elsewhere": (lambda t: t.edit(lambda metadata: restate_summary(metadata, 1, ranges={"0": [70, 100], "1": [50, 100]})), "begins at offset 70"),
    "batch with other offsets": (lambda t: t.edit(lambda metadata: restate_summary(metadata, 1, offsets={"0": 90, "1": 100})), "ends at 90"),
    "batch with offsets that are none": (lambda t: t.edit(lambda metadata: restate_summary(metadata, 1, offsets={"0": "x", "1": 100})), META),
    "batch with a list of offsets": (lambda t: t.edit(lambda metadata: restate_summary(metadata, 1, offsets=[1])), "cannot be read"),
    "property with a list of offsets": (steps(rewrite_all, expire, lambda t: t.edit(lambda metadata: restate_property(metadata, offsets=[1]))), "the archive's properties cannot be read"),
    "mapping of names broken, though files have ids": (lambda t: t.edit(lambda metadata: metadata["properties"].update({"schema.name-mapping.default": "["})), "does not have the table's columns"),
    "snapshots of another type": (lambda t: t.edit(lambda metadata: metadata.update(snapshots=7)), "cannot be opened"),
    "mapping of names broken": (steps(lambda t: t.rewrite(without_ids), lambda t: t.edit(lambda metadata: metadata["properties"].update({"schema.name-mapping.default": '[{"field-id": 1}]'}))), "the table maps no names"),
    "summary broken": (lambda t: t.edit(lambda metadata: metadata["snapshots"][1]["summary"].update(kraftlog="{")), "cannot be read"),
    "summary with another total": (lambda t: t.edit(lambda metadata: metadata["snapshots"][1]["summary"].update({"total-records": "7"})), "summary says total-records 7"),
    "property with other offsets": (lambda t: t.edit(lambda metadata: restate_property(metadata, offsets={"0": 90, "1": 100})), "the property kraftlog.state"),
    "property with another topic id": (lambda t: t.edit(lambda metadata: metadata["properties"].update({"kraftlog.archive": json.dumps(json.loads(metadata["properties"]["kraftlog.archive"]) | {"topicId": "x"})})), "the property kraftlog.archive says x"),
    "property broken": (lambda t: t.edit(lambda metadata: metadata["properties"].update({"kraftlog.state": "{"})), "the property kraftlog.state cannot be read"),
    "property of the state removed": (lambda t: t.edit(drop_property("kraftlog.state")), "no property kraftlog.state"),
    "property of the archive removed": (lambda t: t.edit(drop_property("kraftlog.archive")), "no property kraftlog.archive"),
    "nothing about the archive left": (lambda t: t.edit(forget_archive), "no property kraftlog.archive"),
    "column removed": (lambda t: t.edit(lambda metadata: metadata["schemas"][0]["fields"].pop(1)), "the table has no column value"),
    "column renamed": (lambda t: t.open().update_schema().rename_column("value", "valeu").commit(), "the table has no column value"),
    "columns swapped in the schema": (lambda t: t.edit(lambda metadata: rename_column(metadata, "key", "value")), "its column"),
    "column removed and added again": (steps(lambda t: t.open().update_schema().delete_column("value").commit(), lambda t: t.open().update_schema().union_by_name(pa.schema([("value", pa.binary())])).commit()), "another column had its name"),
    "column of another type": (lambda t: t.edit(lambda metadata: metadata["schemas"][0]["fields"][1].update(type="long")), "column value has type int64"),
    "offset's column removed": (lambda t: t.edit(lambda metadata: metadata["schemas"][0]["fields"].pop(3)), "the table has no column offset"),
    "format of the future": (lambda t: t.edit(lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0})), META),
    "format of no version": (lambda t: t.edit(lambda metadata: metadata.update({"format-version": 9})), "cannot be opened"),
}  # fmt: skip

#: What may be done to a table without damage.
MAINTENANCE: dict[str, Damage] = {
    "nothing": steps(),
    "snapshots expired": expire,
    "files merged": rewrite_all,
    "files merged, and snapshots expired": steps(rewrite_all, expire),
    "columns of the archive added": archive_columns,
    "property set": lambda t: t.open().transaction().set_properties({"a": "b"}).commit_transaction(),
    "rows in another order": lambda t: t.rewrite(shuffled),
    "row groups": lambda t: t.rewrite(lambda rows: rows, row_group_size=9),
    "file without ids": lambda t: t.rewrite(without_ids),
    "no bounds": lambda t: t.edit_file(lambda file: file.update(lower_bounds=None, upper_bounds=None)),
    "DELETE of no row": lambda t: t.open().delete("offset < 0"),
    "position of a file that was added later": delete_before,
    "hint of the version before": lambda t: write(t.metadata_path("version-hint.text"), "2"),
    "an orphan": lambda t: shutil.copy(t.files[0], os.path.join(t.path, "orphan.parquet")),
    "a version that was not finished": lambda t: write(t.metadata_path("v4.metadata.json.123"), "{"),
    "no checkpoint of the query": lambda t: shutil.rmtree(os.path.join(t.lake, "_kraftlog")),
}  # fmt: skip

"""The Iceberg table of a topic, and the table of dead letters that follows it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record

from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.files import FileWriter
from kraftlog.spark.lake.iceberg.catalog import DirectoryCatalog
from kraftlog.spark.lake.iceberg.columns import arrow_columns, new_schema, with_ids
from kraftlog.spark.lake.iceberg.files import is_iceberg, read_hint, version_names
from kraftlog.spark.lake.iceberg.state import (
    batch_property,
    has_batch,
    properties,
    state_of,
    summary,
)
from kraftlog.spark.lake.table import ArchiveTable, LakeError, busy_error, taken_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from kraftlog.spark.lake.files import WrittenFile
    from kraftlog.spark.lake.state import ArchiveState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Old versions of the metadata are deleted, as each one lists all snapshots; small manifests are
#: merged, as each commit adds one.
_MAINTENANCE = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
}


class IcebergArchive(ArchiveTable):
    """A topic's Iceberg table."""

    def __init__(self, directory: str, table: Table, state: ArchiveState) -> None:
        super().__init__(directory, state)
        self._table = table
        self._catalog: DirectoryCatalog = table.catalog

    @classmethod
    def open(cls, directory: str, topic: str) -> IcebergArchive | None:
        """The table of a topic, if it exists."""
        path = layout.table_path(directory, topic)
        if not is_iceberg(path):
            return None
        table = opened(path)
        state = state_of(table.metadata)
        if state is None:
            raise ConfigError(
                f"{path} is an Iceberg table, but not one of kraftlog's: archive into another "
                "directory"
            )
        if table.metadata_location.endswith(".gz.metadata.json"):
            # A version could then have two files, and both commits would succeed.
            raise LakeError(
                f"{path} has compressed metadata, and kraftlog writes it as it is: set the table's "
                "property write.metadata.compression-codec to none"
            )
        if [str(field.transform) for field in table.metadata.spec().fields] not in ([], ["day"]):
            raise LakeError(
                f"{path} is partitioned otherwise than by date: kraftlog can't write files for "
                "that; archive into another directory"
            )
        return cls(directory, table, state)

    @classmethod
    def create(
        cls, directory: str, state: ArchiveState, schema: pa.Schema, *, by_date: bool
    ) -> IcebergArchive:
        path = layout.table_path(directory, state.topic)
        state.start = dict(state.offsets)
        with _refused_if_changed(path):
            table = _create(
                path,
                schema,
                f"the records of topic {state.topic}",
                state.properties() | properties(state, 0),
                by_date=by_date,
            )
        return cls(directory, table, state)

    @property
    def version(self) -> int:
        return max(version_names(self.path))

    @property
    def committed_ms(self) -> int:
        time_ms: int = self._table.metadata.last_updated_ms
        return time_ms

    @property
    def is_by_date(self) -> bool:
        return not self._table.metadata.spec().is_unpartitioned()

    @property
    def schema(self) -> pa.Schema:
        return arrow_columns(self._table.metadata.schema())

    def has_batch(self, query: str, batch: int) -> bool:
        return has_batch(self._table.metadata, query, batch)

    def refresh(self) -> None:
        self._table.refresh()
        state = state_of(self._table.metadata)
        assert state is not None
        self.state = state

    def prepare(self) -> None:
        """Write the hint again that a killed run may not have written."""
        newest = self.version
        try:
            is_right = read_hint(self.path) == newest
        except (OSError, ValueError):
            is_right = False
        if not is_right:
            self._catalog.write_hint(newest)

    def writer(self, name: str) -> FileWriter:
        add_ids = partial(with_ids, schema=self._table.metadata.schema())
        return FileWriter(self.path, name, by_date=self.is_by_date, add_ids=add_ids)

    def dead_letter_writer(self, name: str) -> FileWriter:
        path = layout.dead_letters_path(self._directory)
        add_ids = partial(with_ids, schema=new_schema(layout.DEAD_LETTER))
        return FileWriter(path, name, add_ids=add_ids)

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        with _refused_if_changed(self.path), self._table.update_schema() as update:
            update.union_by_name(pa.schema(columns))

    def _append(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        previous = self.state.offsets

        def check(replaced: TableMetadata) -> None:
            newest = state_of(replaced)
            if newest is None or newest.offsets != previous:
                raise ValidationException  # after this PyIceberg deletes the manifests

        sequence = self._table.metadata.next_sequence_number()
        try:
            with self._catalog.checked(check):
                _append(self._table, files, summary(state), properties(state, sequence))
        except ValidationException as error:
            raise taken_error(state, self.path) from error
        except CommitFailedException as error:
            raise busy_error(state, self.path) from error

    def commit_dead_letters(self) -> None:
        state = self.state
        if not state.dead_letters:
            return
        path = layout.dead_letters_path(self._directory)
        if not is_iceberg(path):
            with suppress(CommitFailedException):  # the archive of another topic has created it
                _create(path, layout.DEAD_LETTER, "records that could not be decoded")
        table = opened(path)
        if has_batch(table.metadata, state.query, state.batch):
            return

        def check(replaced: TableMetadata) -> None:
            if has_batch(replaced, state.query, state.batch):
                raise ValidationException

        try:
            with table.catalog.checked(check):
                _append(table, state.dead_letters, {}, batch_property(state))
        except ValidationException:  # another process has committed them
            return
        except CommitFailedException as error:
            raise busy_error(state, path) from error


def opened(path: str) -> Table:
    """The newest version of a table; ConfigError if its directory was moved or copied."""
    table = DirectoryCatalog(path).load_table("table")
    location = table.metadata.location
    if os.path.realpath(location.removeprefix("file://")) != os.path.realpath(path):
        raise ConfigError(
            f"{path} is a copy of the Iceberg table {location}, or was moved from there: Iceberg "
            "names files by their whole paths, so this table's files are in the old directory. "
            "Move it back, or let a program rewrite the paths, such as Spark's procedure "
            "rewrite_table_path"
        )
    return table


def _create(
    path: str,
    columns: pa.Schema,
    comment: str,
    given: Mapping[str, str] = MappingProxyType({}),
    *,
    by_date: bool = False,
) -> Table:
    schema = new_schema(columns)
    spec = UNPARTITIONED_PARTITION_SPEC
    if by_date:
        source = schema.find_field("timestamp").field_id
        spec = PartitionSpec(PartitionField(source, 1000, DayTransform(), layout.DATE))
    metadata = new_table_metadata(
        location=os.path.abspath(path),
        schema=schema,
        partition_spec=spec,
        sort_order=UNSORTED_SORT_ORDER,
        properties={
            **_MAINTENANCE,
            "schema.name-mapping.default": schema.name_mapping.model_dump_json(),
            "comment": f"{comment}, {layout.ARCHIVED_BY}",
            **given,
        },
    )
    return DirectoryCatalog(path).create(metadata)


def _append(
    table: Table,
    files: Sequence[WrittenFile],
    summary: Mapping[str, str],
    changed: Mapping[str, str],
) -> None:
    """Add files and change properties by one commit."""
    transaction = table.transaction()
    with transaction.update_snapshot(snapshot_properties=dict(summary)).merge_append() as append:
        for each in files:
            append.append_data_file(_data_file(table, each))
    transaction.set_properties(dict(changed))
    transaction.commit_transaction()


def _data_file(table: Table, file: WrittenFile) -> DataFile:
    """A file as a manifest describes it."""
    schema = table.metadata.schema()
    stats = json.loads(file.stats)
    ids = {name: schema.find_field(name).field_id for name in stats["nullCount"]}

    def bounds(values: Mapping[str, Any]) -> dict[int, bytes]:
        return {
            ids[name]: to_bytes(schema.find_type(name), _number(value))
            for name, value in values.items()
        }

    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=os.path.join(table.metadata.location, file.path),
        file_format=FileFormat.PARQUET,
        partition=_partition(file.date),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes={},
        value_counts=dict.fromkeys(ids.values(), file.rows),
        null_value_counts={ids[name]: count for name, count in stats["nullCount"].items()},
        nan_value_counts={},
        lower_bounds=bounds(stats["minValues"]),
        upper_bounds=bounds(stats["maxValues"]),
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
    )


def _number(value: Any) -> int:
    """A bound as Iceberg has it: times in microseconds. Delta's are cut to milliseconds, as Kafka's
    times are."""
    if isinstance(value, str):
        return (datetime.fromisoformat(value) - _EPOCH) // timedelta(microseconds=1)
    number: int = value
    return number


def _partition(day: str | None) -> Record:
    if day is None:
        return Record()
    if day == layout.NO_DATE:
        return Record(None)
    return Record((date.fromisoformat(day) - _EPOCH.date()).days)


@contextmanager
def _refused_if_changed(path: str) -> Iterator[None]:
    """Raise LakeError if another process has created or changed a table at the same time."""
    try:
        yield
    except CommitFailedException as error:
        raise LakeError(
            f"another process has changed {path} meanwhile: start the archive again"
        ) from error

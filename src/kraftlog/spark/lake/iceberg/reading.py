"""Which files an Iceberg table has now, for readers that take their columns by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.types import ListType, StructType

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.iceberg.columns import arrow_columns
from kraftlog.spark.lake.iceberg.table import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField


class LiveFiles(NamedTuple):
    columns: pa.Schema
    paths: tuple[str, ...]


def live_files(path: str) -> LiveFiles:
    """The files of the newest version; ConfigError if the table has other rows or columns."""
    table = opened(path)
    renamed = changed_names(table.metadata)
    if renamed:
        raise ConfigError(
            f"{path} is an Iceberg table in which columns were renamed ({', '.join(renamed)}), "
            "which its files do not show: read it with Spark's connector for Iceberg"
        )
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise ConfigError(
            f"{path} is an Iceberg table with deleted rows that its files still have: read it with "
            "Spark's connector for Iceberg, or rewrite its data files"
        )
    paths = [os.path.realpath(task.file.file_path.removeprefix("file://")) for task in tasks]
    return LiveFiles(arrow_columns(table.metadata.schema()), tuple(sorted(paths)))


def changed_names(metadata: TableMetadata) -> list[str]:
    """Columns of now, by dotted path, that had another name, or whose name another column had.

    Files are read by the names of columns here, and by their ids elsewhere.
    """
    changed = []
    ids = ids_by_path(metadata.schema())
    for old in metadata.schemas:
        old_ids = ids_by_path(old)
        old_paths = {number: path for path, number in old_ids.items()}
        changed += [
            path
            for path, number in ids.items()
            if old_paths.get(number, path) != path or old_ids.get(path, number) != number
        ]
    return list(dict.fromkeys(changed))


def ids_by_path(schema: Schema) -> dict[str, int]:
    """The ids of columns and of their fields, by dotted path."""
    return dict(_paths(schema.fields))


def _paths(fields: Iterable[NestedField], prefix: str = "") -> Iterator[tuple[str, int]]:
    for field in fields:
        path = f"{prefix}{field.name}"
        yield path, field.field_id
        kind = field.field_type
        if isinstance(kind, ListType):
            yield from _paths([kind.element_field], f"{path}.")
        elif isinstance(kind, StructType):
            yield from _paths(kind.fields, f"{path}.")

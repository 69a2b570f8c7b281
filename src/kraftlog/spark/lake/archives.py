"""Opens and creates the tables of an archive, in the format that they have or get."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.iceberg.files import is_iceberg
from kraftlog.spark.lake.table import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

    from kraftlog.spark.lake.iceberg.table import IcebergArchive
    from kraftlog.spark.lake.state import ArchiveState
    from kraftlog.spark.lake.table import ArchiveTable

DELTA, ICEBERG = "delta", "iceberg"
_DELTA_LOG = "_delta_log"


def format_of(path: str) -> str | None:
    """The format of the table in a directory; None if there is none."""
    if os.path.isdir(os.path.join(path, _DELTA_LOG)):
        return DELTA  # although Delta may keep metadata for readers of Iceberg, too
    return ICEBERG if is_iceberg(path) else None


def open_archive(directory: str, topic: str) -> ArchiveTable | None:
    """The table of a topic, if it exists."""
    if format_of(layout.table_path(directory, topic)) == ICEBERG:
        return _iceberg().open(directory, topic)
    return DeltaArchive.open(directory, topic)


def create_archive(
    table_format: str, directory: str, state: ArchiveState, schema: pa.Schema, *, by_date: bool
) -> ArchiveTable:
    if table_format == ICEBERG:
        return _iceberg().create(directory, state, schema, by_date=by_date)
    return DeltaArchive.create(directory, state, schema, by_date=by_date)


def check_format(directory: str, topic: str, table_format: str) -> str:
    """The format of a topic's table: as it is, else as given, else Delta.

    Raises LakeError if the table, or that of the directory's dead letters, has another one.
    """
    path = layout.table_path(directory, topic)
    found = format_of(path)
    if found is not None and table_format not in {"", found}:
        raise LakeError(
            f"{path} exists and is {_name(found)} table: leave --format out to go on with it, or "
            "archive into another directory"
        )
    chosen = found or table_format or DELTA
    letters = layout.dead_letters_path(directory)
    of_letters = format_of(letters)
    if of_letters is not None and of_letters != chosen:
        raise LakeError(
            f"{letters} is {_name(of_letters)} table, and {path} "
            f"{'is' if found else 'would be'} {_name(chosen)} table: the tables of a directory "
            "with dead letters have one format: archive into another directory"
        )
    if chosen == ICEBERG:
        _iceberg()
    return chosen


def _iceberg() -> type[IcebergArchive]:
    check_pyiceberg()
    from kraftlog.spark.lake.iceberg.table import IcebergArchive

    return IcebergArchive


def check_pyiceberg() -> None:
    if find_spec("pyiceberg") is None:
        raise ConfigError("Iceberg tables need PyIceberg: pip install 'kraftlog[iceberg]'")


def _name(table_format: str) -> str:
    return "a Delta" if table_format == DELTA else "an Iceberg"

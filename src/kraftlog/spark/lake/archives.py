"""Opens and creates the tables of an archive, in the format that they have or get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.spark.lake.delta_table import DeltaArchive

if TYPE_CHECKING:
    import pyarrow as pa

    from kraftlog.spark.lake.state import ArchiveState
    from kraftlog.spark.lake.table import ArchiveTable


def open_archive(directory: str, topic: str) -> ArchiveTable | None:
    """The table of a topic, if it exists."""
    return DeltaArchive.open(directory, topic)


def create_archive(
    directory: str, state: ArchiveState, schema: pa.Schema, *, by_date: bool
) -> ArchiveTable:
    return DeltaArchive.create(directory, state, schema, by_date=by_date)

"""The Delta table of a topic, and the table of dead letters that follows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ConfigError, KraftlogError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.decode.nested import merged_type
from kraftlog.spark.lake.files import STATISTICS, schema_of
from kraftlog.spark.lake.state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.spark.lake.files import WrittenFile
    from kraftlog.spark.lake.state import ArchiveState


class LakeError(KraftlogError):
    """Archiving is refused, as records could be lost or mixed up; nothing is committed."""


class ArchiveTable:
    """A topic's table: opened or created, and extended by one commit for each batch.

    The commit also names the files of the batch's dead letters. These are committed to their own
    table afterwards; if a crash prevents that, the next run does it before its first batch.
    """

    def __init__(self, directory: str, table: DeltaTable, state: ArchiveState) -> None:
        self._directory = directory
        self._table = table
        self.state = state

    @classmethod
    def open(cls, directory: str, topic: str) -> ArchiveTable | None:
        """The table of a topic, if it exists."""
        path = layout.table_path(directory, topic)
        table = _open_if_exists(path)
        if table is None:
            return None
        state = state_of(table)
        if state is None:
            raise ConfigError(
                f"{path} is a Delta table, but no commit of its history is kraftlog's: archive "
                "into another directory"
            )
        return cls(directory, table, state)

    @classmethod
    def create(
        cls, directory: str, state: ArchiveState, schema: pa.Schema, *, by_date: bool
    ) -> ArchiveTable:
        path = layout.table_path(directory, state.topic)
        if by_date:
            schema = schema.append(pa.field(layout.DATE, pa.date32()))
        table = DeltaTable.create(
            path,
            schema,
            partition_by=[layout.DATE] if by_date else None,
            name=state.topic,
            description=f"the records of topic {state.topic}, archived by kraftlog",
            configuration=STATISTICS,
            commit_properties=CommitProperties(custom_metadata=state.metadata()),
        )
        return cls(directory, table, state)

    @property
    def path(self) -> str:
        return layout.table_path(self._directory, self.state.topic)

    @property
    def version(self) -> int:
        version: int = self._table.version()
        return version

    @property
    def is_new(self) -> bool:
        """Whether no batch was committed yet."""
        return self.state.batch < 0

    @property
    def is_by_date(self) -> bool:
        return list(self._table.metadata().partition_columns) == [layout.DATE]

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table's files have: all but the date, which is in their paths."""
        schema = pa.schema(self._table.schema().to_arrow())
        return pa.schema([field for field in schema if field.name != layout.DATE])

    def has_batch(self, query: str, batch: int) -> bool:
        """Whether this batch of the query, or a later one, was committed."""
        newest = self._table.transaction_version(query)
        return newest is not None and newest >= batch

    def refresh(self) -> None:
        self._table.update_incremental()
        state = state_of(self._table)
        assert state is not None
        self.state = state

    def commit(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        """Add the files of a batch; `state` goes into the metadata of the commit."""
        if added := self._new_columns(files):
            self.add_columns(added)  # a commit of its own, which repeats the previous state
        _append(self._table, files, state, state.metadata())
        self._table.update_incremental()
        self.state = state
        self.commit_dead_letters()

    def actions(self) -> list[dict[str, Any]]:
        """Delta's `add` action of each file: its path, size and statistics, flattened."""
        actions: list[dict[str, Any]] = pa.table(
            self._table.get_add_actions(flatten=True)
        ).to_pylist()
        return actions

    def replace(self, removed: Sequence[str], files: Sequence[WrittenFile]) -> None:
        """Replace files by others with the same rows; the commit repeats the newest state."""
        by_path = {unquote(action["path"]): action for action in self.actions()}
        now_ms = wall_ms()
        removals = [
            RemoveAction(
                path,
                False,
                now_ms,
                by_path[path]["size_bytes"],
                {layout.DATE: str(by_path[path][f"partition.{layout.DATE}"])}
                if self.is_by_date
                else {},
            )
            for path in removed
        ]
        self._table.create_write_transaction(
            [*removals, *_additions(files, now_ms, is_change=False)],
            "append",
            self._table.schema(),
            commit_properties=CommitProperties(custom_metadata=self.state.metadata()),
        )
        self._table.update_incremental()

    def commit_dead_letters(self) -> None:
        """Commit the dead letters of the last batch, unless their table has them already."""
        if not self.state.dead_letters:
            return
        path = layout.dead_letters_path(self._directory)
        table = _open_if_exists(path) or DeltaTable.create(
            path,
            layout.DEAD_LETTER,
            mode="ignore",
            name="dead letters",
            description="records that kraftlog could not decode, with the reason",
            configuration=STATISTICS,
        )
        newest = table.transaction_version(self.state.query)
        if newest is None or newest < self.state.batch:
            _append(table, self.state.dead_letters, self.state, None)

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields of columns; they are null in rows that the table already has."""
        fields = Schema.from_arrow(pa.schema(columns)).fields
        self._table.alter.add_columns(
            fields, commit_properties=CommitProperties(custom_metadata=self.state.metadata())
        )
        self._table.update_incremental()

    def _new_columns(self, files: Sequence[WrittenFile]) -> list[pa.Field]:
        """The columns of the files that are new in the table, or have new fields."""
        existing = {field.name: field for field in self.schema}
        merged = dict(existing)
        for file in files:
            for field in schema_of(file.schema):
                column = merged.setdefault(field.name, field)
                kind = merged_type(column.type, field.type)
                if kind is None and column is existing.get(field.name):
                    continue
                if kind is None:
                    raise LakeError(
                        f"{self.state.topic}: new column {field.name} has two types, "
                        f"{column.type} and {field.type}: give its type with --schema, or leave "
                        "it out with --on-drift ignore"
                    )
                merged[field.name] = column.with_type(kind)
        return [
            field
            for name, field in merged.items()
            if name not in existing or field.type != existing[name].type
        ]


def _open_if_exists(path: str) -> DeltaTable | None:
    if not os.path.isdir(path):
        return None
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _append(
    table: DeltaTable,
    files: Sequence[WrittenFile],
    state: ArchiveState,
    metadata: dict[str, object] | None,
) -> None:
    """Add files by one commit, which fails if another process has committed the same batch."""
    actions = _additions(files, wall_ms(), is_change=True)
    properties = CommitProperties(
        custom_metadata=metadata,
        app_transactions=[Transaction(state.query, state.batch)],
    )
    try:
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=properties
        )
    except CommitFailedError as error:
        raise LakeError(
            f"{state.topic}: another process has committed batch {state.batch} to {table.table_uri}"
            " meanwhile; only one may archive a topic into a directory"
        ) from error


def _additions(files: Sequence[WrittenFile], now_ms: int, *, is_change: bool) -> list[AddAction]:
    return [
        AddAction(
            each.path,
            each.size,
            {} if each.date is None else {layout.DATE: each.date},
            now_ms,
            is_change,
            each.stats,
        )
        for each in files
    ]

"""The Delta table of a topic, and the table of dead letters that follows it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.files import STATISTICS
from kraftlog.spark.lake.state import KEY, is_durable, read_state, state_of
from kraftlog.spark.lake.table import ArchiveTable, LakeError, busy_error, taken_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from kraftlog.spark.lake.files import WrittenFile
    from kraftlog.spark.lake.state import ArchiveState

#: How often a commit is tried while others change the table's columns or properties.
_ATTEMPTS = 5


class DeltaArchive(ArchiveTable):
    """A topic's Delta table.

    Delta may have deleted the newest batch's commit when its dead letters are committed, so the
    names of their files are noted next to the checkpoint as well.
    """

    def __init__(self, directory: str, table: DeltaTable, state: ArchiveState) -> None:
        super().__init__(directory, state)
        self._table = table

    @classmethod
    def open(cls, directory: str, topic: str) -> DeltaArchive | None:
        """The table of a topic, if it exists."""
        path = layout.table_path(directory, topic)
        table = _open_if_exists(path)
        if table is None:
            return None
        state = state_of(table)
        if state is None:
            raise ConfigError(
                f"{path} is a Delta table, but not one of kraftlog's: archive into another "
                "directory"
            )
        opened = cls(directory, table, state)
        opened._read_last_batch()
        return opened

    @classmethod
    def create(
        cls, directory: str, state: ArchiveState, schema: pa.Schema, *, by_date: bool
    ) -> DeltaArchive:
        path = layout.table_path(directory, state.topic)
        state.start = dict(state.offsets)
        if by_date:
            schema = schema.append(pa.field(layout.DATE, pa.date32()))
        properties = CommitProperties(
            custom_metadata=state.metadata(), app_transactions=state.transactions(state.offsets)
        )
        with _refused_if_changed(path):
            table = DeltaTable.create(
                path,
                schema,
                partition_by=[layout.DATE] if by_date else None,
                name=state.topic,
                description=f"the records of topic {state.topic}, {layout.ARCHIVED_BY}",
                configuration={**STATISTICS, **state.properties()},
                raise_if_key_not_exists=False,
                commit_properties=properties,
            )
        return cls(directory, table, state)

    @property
    def version(self) -> int:
        version: int = self._table.version()
        return version

    @property
    def committed_ms(self) -> int:
        [newest] = self._table.history(1)
        time_ms: int = newest["timestamp"]
        return time_ms

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

    def prepare(self) -> None:
        """Put the state of a table of an older version where Delta keeps it."""
        if is_durable(self._table):
            return
        properties = CommitProperties(
            custom_metadata=self.state.metadata(),
            app_transactions=self.state.transactions(self.state.offsets),
        )
        with _refused_if_changed(self.path):
            self._table.alter.set_table_properties(
                self.state.properties(), raise_if_not_exists=False, commit_properties=properties
            )
        self._table.update_incremental()

    def _append(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        """Commit a batch unless another process has committed its offsets meanwhile.

        Other commits, such as those that merge files, are no reason to fail.
        """
        previous = self.state.offsets
        properties = CommitProperties(
            custom_metadata=state.metadata(), app_transactions=state.transactions(state.ranges)
        )
        for _ in range(_ATTEMPTS):
            try:
                _write(self._table, files, properties)
            except CommitFailedError as error:
                self.refresh()
                if self.state.offsets != previous:
                    raise taken_error(state, self.path) from error
            else:
                self._table.update_incremental()
                return
        raise busy_error(state, self.path)

    # Dead letters

    def _note_batch(self, state: ArchiveState) -> None:
        """Note the batch that is about to be committed, with the files of its dead letters."""
        path = layout.last_batch_path(self._directory, state.topic)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(state.metadata(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)

    def _read_last_batch(self) -> None:
        """Take the newest batch from the note if Delta has deleted its commit."""
        path = layout.last_batch_path(self._directory, self.state.topic)
        if self.state.batch >= 0 or self.state.is_new or not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            last = read_state(json.load(file)[KEY])
        if self.has_batch(last.query, last.batch):
            self.state.query, self.state.batch = last.query, last.batch
            self.state.dead_letters = last.dead_letters

    def commit_dead_letters(self) -> None:
        """Commit the dead letters of the last batch, unless their table has them already."""
        state = self.state
        if not state.dead_letters:
            return
        path = layout.dead_letters_path(self._directory)
        properties = CommitProperties(app_transactions=[Transaction(state.query, state.batch)])
        for attempt in range(_ATTEMPTS):
            table = _open_if_exists(path) or DeltaTable.create(
                path,
                layout.DEAD_LETTER,
                mode="ignore",
                name="dead letters",
                description="records that kraftlog could not decode, with the reason",
                configuration=STATISTICS,
            )
            newest = table.transaction_version(state.query)
            if newest is not None and newest >= state.batch:
                return
            try:
                add_missing_columns(table, layout.DEAD_LETTER)
                _write(table, state.dead_letters, properties)
            except CommitFailedError:  # another topic's archive has added the columns
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return

    # Files and columns

    def actions(self) -> list[dict[str, Any]]:
        """Delta's `add` action of each file: its path, size and statistics, flattened."""
        actions: list[dict[str, Any]] = pa.table(
            self._table.get_add_actions(flatten=True)
        ).to_pylist()
        return actions

    def replace(self, removed: Sequence[str], files: Sequence[WrittenFile]) -> None:
        """Replace files by others with the same rows; the commit repeats the newest state."""
        now_ms = wall_ms()
        removals = self._removals(removed, now_ms, is_change=False)
        with _refused_if_changed(self.path):
            self._table.create_write_transaction(
                [*removals, *_additions(files, now_ms, is_change=False)],
                "append",
                self._table.schema(),
                commit_properties=CommitProperties(custom_metadata=self.state.metadata()),
            )
        self._table.update_incremental()

    def remove(self, removed: Sequence[str], kept: Mapping[int, int], rows: int) -> None:
        """Remove files by retention; note which offsets are kept, and how many rows are not."""
        state = replace(
            self.state,
            ranges={},
            lost={},
            kept={**self.state.kept, **kept},
            removed=self.state.removed + rows,
        )
        properties = CommitProperties(
            custom_metadata=state.metadata(), app_transactions=state.retention_transactions()
        )
        with _refused_if_changed(self.path):
            self._table.create_write_transaction(
                self._removals(removed, wall_ms(), is_change=True),
                "append",
                self._table.schema(),
                commit_properties=properties,
            )
        self._table.update_incremental()
        self.state = state

    def _removals(
        self, removed: Sequence[str], now_ms: int, *, is_change: bool
    ) -> list[RemoveAction]:
        by_path = {unquote(action["path"]): action for action in self.actions()}
        return [
            RemoveAction(
                path,
                is_change,
                now_ms,
                by_path[path]["size_bytes"],
                _partition_values(str(by_path[path][f"partition.{layout.DATE}"] or layout.NO_DATE))
                if self.is_by_date
                else {},
            )
            for path in removed
        ]

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields of columns; they are null in rows that the table already has."""
        fields = Schema.from_arrow(pa.schema(columns)).fields
        properties = CommitProperties(custom_metadata=self.state.metadata())
        with _refused_if_changed(self.path):
            self._table.alter.add_columns(fields, commit_properties=properties)
        self._table.update_incremental()


def add_missing_columns(table: DeltaTable, columns: Iterable[pa.Field]) -> None:
    """Add the columns that an earlier version of kraftlog has not made, by a commit of its own."""
    known = {each.name for each in table.schema().fields}
    if missing := [each for each in columns if each.name not in known]:
        table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
        table.update_incremental()


def is_conflict(error: DeltaError) -> bool:
    """Whether another process has created or changed the table at the same time."""
    return "already exists" in str(error) or isinstance(error, CommitFailedError)


@contextmanager
def _refused_if_changed(path: str) -> Iterator[None]:
    """Raise LakeError if another process has created or changed a table at the same time."""
    try:
        yield
    except DeltaError as error:
        if not is_conflict(error):
            raise
        raise LakeError(
            f"another process has changed {path} meanwhile: start the archive again"
        ) from error


def _open_if_exists(path: str) -> DeltaTable | None:
    if not os.path.isdir(path):
        return None
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _write(table: DeltaTable, files: Sequence[WrittenFile], properties: CommitProperties) -> None:
    """Add files by one commit, which fails if another process has committed a transaction of it."""
    table.create_write_transaction(
        _additions(files, wall_ms(), is_change=True),
        "append",
        table.schema(),
        commit_properties=properties,
    )


def _additions(files: Sequence[WrittenFile], now_ms: int, *, is_change: bool) -> list[AddAction]:
    return [
        AddAction(
            each.path,
            each.size,
            _partition_values(each.date),
            now_ms,
            is_change,
            each.stats,
        )
        for each in files
    ]


def _partition_values(date: str | None) -> dict[str, str | None]:
    if date is None:
        return {}
    return {layout.DATE: None if date == layout.NO_DATE else date}

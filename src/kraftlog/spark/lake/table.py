"""The table of a topic: what an archive needs of it, whatever format it has."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kraftlog.errors import KraftlogError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.decode.nested import merged_type
from kraftlog.spark.lake.files import FileWriter, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kraftlog.spark.lake.files import WrittenFile
    from kraftlog.spark.lake.state import ArchiveState


class LakeError(KraftlogError):
    """Archiving is refused, as records could be lost or mixed up; nothing is committed."""


class NewColumnsError(LakeError):
    """Tasks have added columns that conflict; the table has the first of them now.

    A repetition of the batch decodes its values for these columns.
    """


class ArchiveTable(ABC):
    """A topic's table: opened or created, and extended by one commit for each batch.

    A commit adds the files of a batch and the offsets after them, both or neither. It fails if
    another process has committed offsets since the state was read. It also names the files of the
    batch's dead letters. These are committed to their own table afterwards; if a crash prevents
    that, the next run does it before its first batch.
    """

    def __init__(self, directory: str, state: ArchiveState) -> None:
        self._directory = directory
        self.state = state

    @property
    def path(self) -> str:
        return layout.table_path(self._directory, self.state.topic)

    @property
    def is_new(self) -> bool:
        """Whether no batch was committed yet."""
        return self.state.is_new

    @property
    @abstractmethod
    def version(self) -> int: ...

    @property
    @abstractmethod
    def committed_ms(self) -> int:
        """When the newest version was committed."""

    @property
    @abstractmethod
    def is_by_date(self) -> bool: ...

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns that the table's files have."""

    @abstractmethod
    def has_batch(self, query: str, batch: int) -> bool:
        """Whether this batch of the query, or a later one, was committed."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the newest version, and the state of it."""

    @abstractmethod
    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields of columns; they are null in rows that the table already has."""

    @abstractmethod
    def commit_dead_letters(self) -> None:
        """Commit the dead letters of the last batch, unless their table has them already."""

    @abstractmethod
    def _append(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        """Commit a batch unless another process has committed its offsets meanwhile.

        Other commits, such as those that merge files, are no reason to fail.
        """

    def prepare(self) -> None:  # noqa: B027 - most tables need nothing
        """Make a table of an older version, or of a killed run, as a batch expects it."""

    def writer(self, name: str) -> FileWriter:
        """Writes the files of a task into the table's directory."""
        return FileWriter(self.path, name, by_date=self.is_by_date)

    def dead_letter_writer(self, name: str) -> FileWriter:
        """Writes the dead letters of a task into the directory of their table."""
        return FileWriter(layout.dead_letters_path(self._directory), name)

    def commit(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        """Add the files of a batch, together with the offsets after it."""
        _check_files(self.path, files)
        _check_files(layout.dead_letters_path(self._directory), state.dead_letters)
        self._note_batch(state)
        added, conflicts = self._new_columns(files)
        if added:
            self.add_columns(added)  # a commit of its own, which repeats the previous state
        if conflicts:
            raise NewColumnsError(
                f"{state.topic}: the records of a batch have new fields that can't have columns "
                f"together: {', '.join(conflicts)}: give their types with --schema, or leave them "
                "out with --on-drift ignore"
            )
        self._append(state, files)
        self.state = state
        self.commit_dead_letters()

    def _note_batch(self, state: ArchiveState) -> None:  # noqa: B027 - a format may do without
        """Note a batch that is about to be committed, if the table may forget it later."""

    def _new_columns(self, files: Sequence[WrittenFile]) -> tuple[list[pa.Field], list[str]]:
        """The columns of the files that are new in the table, or have new fields.

        Also the names of conflicting ones: they have another type, or differ only in case.
        """
        existing = {field.name: field for field in self.schema}
        merged = dict(existing)
        names = {name.lower(): name for name in existing}
        conflicts: list[str] = []
        for file in files:
            for field in schema_of(file.schema):
                if names.setdefault(field.name.lower(), field.name) != field.name:
                    conflicts.append(f"{names[field.name.lower()]} and {field.name}")
                    continue
                column = merged.setdefault(field.name, field)
                kind = merged_type(column.type, field.type)
                if kind is not None:
                    merged[field.name] = column.with_type(kind)
                elif column is not existing.get(field.name):
                    conflicts.append(f"{field.name} as {column.type} and {field.type}")
        added = [
            field
            for name, field in merged.items()
            if name not in existing or field.type != existing[name].type
        ]
        return added, sorted(set(conflicts))


def _check_files(directory: str, files: Sequence[WrittenFile]) -> None:
    """Raise LakeError if a file is gone, as `vacuum` deletes those that no commit names yet."""
    for each in files:
        path = os.path.join(directory, each.path)
        if not os.path.exists(path):
            raise LakeError(
                f"{path} was deleted before it was committed, as vacuum does with a retention "
                "shorter than a batch takes: start the archive again"
            )


def taken_error(state: ArchiveState, path: str) -> LakeError:
    return LakeError(
        f"{state.topic}: another process has committed the same offsets to {path} meanwhile: only "
        "one may archive a topic into a directory"
    )


def busy_error(state: ArchiveState, path: str) -> LakeError:
    return LakeError(
        f"{state.topic}: other processes change {path} all the time: start the archive again when "
        "they have ended"
    )

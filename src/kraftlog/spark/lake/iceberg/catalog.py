"""Commits versions of an Iceberg table in a directory, without a catalog's server.

A version is a file with the next number. It is complete before it gets its name, by a hard link,
which fails if the name exists. So of two commits that were made from the same version, one fails.
PyIceberg then makes it again from the newer version, whatever that has added. Whether this is right
is for `check` to say, which sees exactly the version that the commit replaces.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4  # noqa: TID251 - a name that no other process uses

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata

from kraftlog.spark.lake.iceberg.files import HINT, METADATA, metadata_path, version_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    #: Raises an error if a commit may not replace this version.
    Check = Callable[[TableMetadata], None]


class DirectoryCatalog(NoopCatalog):
    """The catalog of the one table in a directory."""

    def __init__(self, directory: str) -> None:
        super().__init__("directory")
        self._directory = directory
        self._io = PyArrowFileIO()
        self._check: Check | None = None

    @contextmanager
    def checked(self, check: Check) -> Iterator[None]:
        """Call `check` with the version that a commit is about to replace."""
        self._check = check
        try:
            yield
        finally:
            self._check = None

    def create(self, metadata: TableMetadata) -> Table:
        """Commit the first version; raise CommitFailedException if there is one."""
        if version_names(self._directory):
            raise CommitFailedException(f"{self._directory} has a table")
        os.makedirs(os.path.join(self._directory, METADATA), exist_ok=True)
        self._publish(1, metadata)
        return self.load_table("table")

    def load_table(self, identifier: Any) -> Table:
        names = version_names(self._directory)
        if not names:
            raise NoSuchTableError(f"{self._directory} has no Iceberg table")
        path = metadata_path(self._directory, names[max(names)])
        metadata = FromInputFile.table_metadata(self._io.new_input(path))
        return Table(("table",), metadata, path, self._io, self)

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        version = max(version_names(self._directory))
        base = self.load_table(table.name())
        for requirement in requirements:
            requirement.validate(base.metadata)
        if self._check is not None:
            self._check(base.metadata)
        location = base.metadata_location
        metadata = update_table_metadata(base.metadata, updates, metadata_location=location)
        for update in updates:
            if isinstance(update, AddSnapshotUpdate):
                self._sync(update.snapshot)
        path = self._publish(version + 1, metadata)
        return CommitTableResponse(metadata=metadata, metadata_location=path)

    def write_hint(self, version: int) -> None:
        """Name the newest version, for readers that do not look for it."""
        self._replace(metadata_path(self._directory, HINT), str(version))

    def _publish(self, version: int, metadata: TableMetadata) -> str:
        path = metadata_path(self._directory, f"v{version}.metadata.json")
        new = f"{path}.{uuid4()}"
        _write(new, metadata.model_dump_json(exclude_none=True))
        try:
            os.link(new, path)
        except FileExistsError as error:
            raise CommitFailedException(f"{path} was committed meanwhile") from error
        finally:
            os.unlink(new)
        _sync_path(os.path.dirname(path))
        newest = self.load_table("table")
        earlier = {each.metadata_file for each in newest.metadata.metadata_log}
        if path not in {newest.metadata_location, *earlier}:
            # The name was free only because the version that had it was committed meanwhile, and
            # deleted after a number of later ones.
            raise CommitFailedException(f"{path} was committed and deleted meanwhile")
        self.write_hint(max(version_names(self._directory)))
        return path

    def _sync(self, snapshot: Snapshot) -> None:
        """What a version names has to survive a power failure, as the files of records do."""
        _sync_path(snapshot.manifest_list)
        for manifest in snapshot.manifests(self._io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                _sync_path(manifest.manifest_path)

    def _replace(self, path: str, text: str) -> None:
        new = f"{path}.{uuid4()}"
        _write(new, text)
        os.replace(new, path)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_path(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

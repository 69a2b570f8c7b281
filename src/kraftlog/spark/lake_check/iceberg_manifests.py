"""Reads the manifests of an Iceberg snapshot: its files, and what the manifests contradict."""

from __future__ import annotations

import os
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

import fastavro
import numpy as np
from pyarrow.parquet import ParquetFile
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestEntryStatus,
    read_manifest_list,
)

from kraftlog.spark.lake_check.lake_files import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    UnreadableFileError,
    readable,
)
from kraftlog.spark.lake_check.tables import FileAction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_EPOCH = date(1970, 1, 1)


class Files(NamedTuple):
    """The files that readers of a snapshot see; `damage` has a sentence for each damage."""

    damage: tuple[str, ...]
    actions: tuple[FileAction, ...]
    #: By path, the rows that files of deleted positions hide.
    deleted: dict[str, NDArray[np.bool_]]


class UnreadableSnapshotError(Exception):
    """The list of a snapshot's manifests cannot be read."""


def read_files(metadata: TableMetadata, directory: str, snapshot: Snapshot) -> Files:
    return _Reader(metadata, directory, snapshot).read()


class _Reader:
    def __init__(self, metadata: TableMetadata, directory: str, snapshot: Snapshot) -> None:
        self._metadata = metadata
        self._directory = os.path.realpath(directory)
        self._snapshot = snapshot
        self._io = PyArrowFileIO()
        self._damage: list[str] = []
        #: The live entries by path: of files with records, and of files of deleted positions.
        self._data: dict[str, ManifestEntry] = {}
        self._deletes: dict[str, ManifestEntry] = {}
        self._actions: list[FileAction] = []

    def read(self) -> Files:
        try:
            _read_avro(self._snapshot.manifest_list)
            # The snapshot's own method would give what an earlier comparison has read.
            manifests = list(read_manifest_list(self._io.new_input(self._snapshot.manifest_list)))
        except Exception as error:
            raise UnreadableSnapshotError(_text(error)) from error
        for manifest in manifests:
            name = os.path.basename(manifest.manifest_path)
            try:
                self._read_manifest(manifest, name)
            except Exception as error:
                self._damage.append(f"manifest {name} cannot be read: {_text(error)}")
        self._compare_totals()
        deleted = self._deleted_rows()
        return Files(tuple(self._damage), tuple(self._actions), deleted)

    def _read_manifest(self, manifest: ManifestFile, name: str) -> None:
        _read_avro(manifest.manifest_path)
        size = os.path.getsize(manifest.manifest_path.removeprefix("file://"))
        if size != manifest.manifest_length:
            self._damage.append(
                f"manifest {name} has {size} bytes, its list says {manifest.manifest_length}"
            )
        entries = manifest.fetch_manifest_entry(self._io, discard_deleted=False)
        for said, status in (("added", 1), ("existing", 0), ("deleted", 2)):
            counts = [each.data_file.record_count for each in entries if each.status == status]
            for noun, found in (("files", len(counts)), ("rows", sum(counts))):
                number = getattr(manifest, f"{said}_{noun}_count")
                if number is not None and number != found:
                    self._damage.append(
                        f"manifest {name} has {found} {said} {noun}, its list says {number}"
                    )
        live = [each for each in entries if each.status != ManifestEntryStatus.DELETED]
        self._damage += self._wrong_summaries(manifest, name, entries)
        for entry in live:
            self._take(entry, manifest.partition_spec_id, name)

    def _take(self, entry: ManifestEntry, spec: int, name: str) -> None:
        file = entry.data_file
        path = _local(file.file_path)
        short = os.path.relpath(path, self._directory)
        if path in self._data or path in self._deletes:
            self._damage.append(f"manifest {name} has {short}, which the table has already")
            return
        if (entry.sequence_number or 0) > self._snapshot.sequence_number:
            self._damage.append(f"manifest {name} has {short} with a sequence number of the future")
        if file.content == DataFileContent.DATA and file.file_format == FileFormat.PARQUET:
            self._data[path] = entry
            self._actions.append(self._action(path, file, spec))
        elif (
            file.content == DataFileContent.POSITION_DELETES
            and file.file_format == FileFormat.PARQUET
        ):
            self._deletes[path] = entry
        else:
            kind = f"{file.content!r} in {file.file_format}".replace("DataFileContent.", "")
            self._damage.append(f"{short} is a file of a kind that is not read here: {kind}")

    def _action(self, path: str, file: DataFile, spec: int) -> FileAction:
        schema = self._metadata.schema()
        bounds, nulls = {}, {}
        for name in (PARTITION, OFFSET, TIMESTAMP):
            column = schema.find_field(name) if name in schema.column_names else None
            if column is None:
                continue
            number = column.field_id
            counts = file.value_counts or {}
            if counts.get(number, file.record_count) != file.record_count:
                self._damage.append(
                    f"{os.path.basename(path)} has {file.record_count} records, and "
                    f"{counts[number]} values of {name}"
                )
            if number in (file.null_value_counts or {}):
                nulls[name] = file.null_value_counts[number]
            try:
                low, high = (
                    from_bytes(column.field_type, each[number])
                    for each in (file.lower_bounds, file.upper_bounds)
                )
            except (KeyError, TypeError):
                continue  # no bounds: the file is read instead
            except Exception as error:
                text = f"the bounds of {name} cannot be read: {_text(error)}"
                self._damage.append(f"{os.path.basename(path)}: {text}")
                continue
            bounds[name] = (int(low), int(high))
        days = [
            value
            for field, value in zip(
                self._metadata.specs()[spec].fields, file.partition._data, strict=True
            )
            if str(field.transform) == "day" and value is not None
        ]
        return FileAction(
            path=path,
            size_bytes=file.file_size_in_bytes,
            records=file.record_count,
            bounds=bounds,
            nulls=nulls,
            partition=None,
            date=_EPOCH + timedelta(days=int(days[0])) if days else None,
        )

    def _wrong_summaries(
        self, manifest: ManifestFile, name: str, entries: Sequence[ManifestEntry]
    ) -> Iterator[str]:
        """Bounds by which readers skip a manifest that has no file of a partition they look for."""
        spec = self._metadata.specs()[manifest.partition_spec_id]
        schema = self._metadata.schema()
        for number, (field, summary) in enumerate(
            zip(spec.fields, manifest.partitions or (), strict=False)
        ):
            kind = field.transform.result_type(schema.find_type(field.source_id))
            found = [each.data_file.partition[number] for each in entries]
            values = [each for each in found if each is not None]
            if not values:
                continue
            try:
                low, high = (
                    from_bytes(kind, each) for each in (summary.lower_bound, summary.upper_bound)
                )
                is_right = low <= min(values) and high >= max(values)
            except Exception:
                is_right = False
            if not is_right or (len(values) < len(found) and not summary.contains_null):
                yield f"manifest {name} has other values of {field.name} than its list says"

    def _compare_totals(self) -> None:
        summary = self._snapshot.summary
        records = sum(each.data_file.record_count for each in self._data.values())
        for key, found in (
            ("total-data-files", len(self._data)),
            ("total-delete-files", len(self._deletes)),
            ("total-records", records),
        ):
            said = summary.get(key) if summary is not None else None
            if said is not None and said != str(found):
                self._damage.append(
                    f"the snapshot's summary says {key} {said}, its manifests have {found}"
                )

    def _deleted_rows(self) -> dict[str, NDArray[np.bool_]]:
        rows: dict[str, list[int]] = {}
        for path, entry in self._deletes.items():
            try:
                with readable(), ParquetFile(path) as file:
                    found = file.read(columns=["file_path", "pos"])
                    paths = [_local(each) for each in found.column("file_path").to_pylist()]
                    numbers = found.column("pos").to_pylist()
            except UnreadableFileError as error:
                self._damage.append(f"deleted positions: {os.path.basename(path)} {error}")
                continue
            for target, number in zip(paths, numbers, strict=True):
                data = self._data.get(target)
                # Rows that were added later stay.
                if data is not None and _sequence(data) <= _sequence(entry):
                    rows.setdefault(target, []).append(number)
        masks = {}
        for path, numbers in rows.items():
            mask = np.zeros(max(numbers) + 1, dtype=bool)
            mask[numbers] = True
            masks[path] = mask
        return masks


def _read_avro(path: str) -> None:
    """Read a file as other readers do, who also look at its sync markers."""
    with open(path.removeprefix("file://"), "rb") as file:
        for _ in fastavro.reader(file):
            pass


def _sequence(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


def _local(path: str) -> str:
    return os.path.realpath(path.removeprefix("file://"))


def _text(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

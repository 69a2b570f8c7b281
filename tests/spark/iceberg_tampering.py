"""An Iceberg archive that is restored for each test, and how its files are changed by hand.

Iceberg names files by their whole paths, so a copy can't be damaged in another place.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.types import LongType

from kraftlog.spark.lake.iceberg.files import version_names
from kraftlog.spark.lake.iceberg.table import opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

TOPIC = "tampered-iceberg"
#: The id of the column `offset`.
OFFSET_ID = 4

Records = list[dict[str, Any]]


class IcebergTable:
    """The archive's table as it was made, to be damaged."""

    def __init__(self, backup: Path, lake: Path) -> None:
        shutil.rmtree(lake)
        shutil.copytree(backup, lake)
        clear_manifest_cache()  # another test has had other manifests of the same names
        self.lake = str(lake)
        self.path = str(lake / TOPIC)

    @property
    def files(self) -> list[str]:
        """The files of records, by partition and offset."""
        names = sorted(os.listdir(self.path))
        return [os.path.join(self.path, name) for name in names if name.endswith(".parquet")]

    def rows(self, file: int = 0) -> pa.Table:
        return pq.read_table(self.files[file], partitioning=None)

    def open(self) -> Any:
        return opened(self.path)

    def metadata_path(self, name: str) -> str:
        return os.path.join(self.path, "metadata", name)

    def newest(self) -> str:
        names = version_names(self.path)
        return self.metadata_path(names[max(names)])

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the newest version."""
        with open(self.newest(), encoding="utf-8") as file:
            metadata = json.load(file)
        change(metadata)
        with open(self.newest(), "w", encoding="utf-8") as file:
            json.dump(metadata, file)

    def manifest_list(self) -> str:
        path: str = self.open().metadata.current_snapshot().manifest_list
        return path

    def manifests(self) -> list[str]:
        """The manifests, the newest one first."""
        return [each["manifest_path"] for each in read_avro(self.manifest_list())]

    def edit_list(self, change: Callable[[Records], Records | None]) -> None:
        edit_avro(self.manifest_list(), change)

    def edit_manifest(self, change: Callable[[Records], Records | None], manifest: int = 0) -> None:
        """Change a manifest, and let the list say its new size."""
        edit_avro(self.manifests()[manifest], change)
        sizes = [os.path.getsize(path) for path in self.manifests()]

        def resize(records: Records) -> None:
            for record, size in zip(records, sizes, strict=True):
                record["manifest_length"] = size

        self.edit_list(resize)

    def edit_file(self, change: Callable[[dict[str, Any]], object], manifest: int = 0) -> None:
        """Change what a manifest says of its first file."""

        def change_first(records: Records) -> None:
            change(records[0]["data_file"])

        self.edit_manifest(change_first, manifest)

    def rewrite(
        self,
        change: Callable[[pa.Table], pa.Table],
        file: int = 0,
        *,
        described: str = "size",
        **settings: Any,
    ) -> None:
        """Change the rows of a file, and what manifests say of it: size, all, or nothing."""
        path = self.files[file]
        pq.write_table(change(pq.read_table(path, partitioning=None)), path, **settings)
        for number in range(len(self.manifests())):
            if described:
                self.edit_manifest(
                    lambda records: _describe(records, path, is_whole=described == "all"), number
                )


def _describe(records: Records, path: str, *, is_whole: bool) -> None:
    for each in records:
        described = each["data_file"]
        if described["file_path"] != path:
            continue
        described["file_size_in_bytes"] = os.path.getsize(path)
        if is_whole:
            offsets = pq.read_table(path, columns=["offset"], partitioning=None)[
                "offset"
            ].to_pylist()
            described["record_count"] = len(offsets)
            for counts in described["value_counts"]:
                counts["value"] = len(offsets)
            set_bound(described, "lower_bounds", min(offsets))
            set_bound(described, "upper_bounds", max(offsets))


def set_bound(described: dict[str, Any], name: str, value: int, column: int = OFFSET_ID) -> None:
    for bound in described[name]:
        if bound["key"] == column:
            bound["value"] = to_bytes(LongType(), value)


def read_avro(path: str) -> Records:
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


def edit_avro(path: str, change: Callable[[Records], Records | None]) -> None:
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        schema, metadata = reader.writer_schema, reader.metadata
        records: Records = list(reader)
    changed = change(records)
    kept = {name: text for name, text in metadata.items() if not name.startswith("avro.")}
    with open(path, "wb") as file:
        fastavro.writer(
            file, schema, records if changed is None else changed, metadata=kept, strict=True
        )

"""The metadata log in a copied data directory of kraftlog or Apache Kafka."""

from __future__ import annotations

import os

from kraftlog.errors import ConfigError, CorruptBatchError, CorruptLogError
from kraftlog.metadata.history import state_at
from kraftlog.records.header import MAGIC
from kraftlog.records.walk import walk
from kraftlog.storage.format import METADATA_FOLDER
from kraftlog.storage.metadata_snapshots import parse_name
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.metadata.history import MetadataState, Moment
    from kraftlog.types import OffsetAndEpoch

#: The position of the magic byte, the version of the format, in a batch.
_MAGIC_POSITION = 16


class MetadataFolder:
    """Reads all batches of the files, including last ones that may never have been committed."""

    def __init__(self, path: str) -> None:
        """`path` is a data directory, or the folder of the metadata log itself."""
        inner = os.path.join(path, METADATA_FOLDER)
        self.path = inner if os.path.isdir(inner) else path
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        self._segments = sorted(
            name for name in names if name.endswith(".log") and name[:-4].isdecimal()
        )
        ids = [parse_name(name) for name in names]
        self._snapshots = {(each.offset, each.epoch): each for each in ids if each is not None}
        self._snapshot_names = {
            (each.offset, each.epoch): name
            for name, each in zip(names, ids, strict=True)
            if each is not None
        }
        if not self._segments and not self._snapshots:
            raise ConfigError(
                f"{path} has no metadata log: expected a data directory with {METADATA_FOLDER}, or "
                "that folder"
            )

    def state_at(self, until: Moment) -> MetadataState:
        """The metadata as of a moment."""
        return state_at(self, until)

    @property
    def start(self) -> int:
        """The first offset of the segments; without any, the end offset of the newest snapshot."""
        return int(self._segments[0][:-4]) if self._segments else max(self._snapshots)[0]

    def snapshots(self) -> list[OffsetAndEpoch]:
        return [self._snapshots[key] for key in sorted(self._snapshots, reverse=True)]

    def read_snapshot(self, snapshot: OffsetAndEpoch) -> bytes:
        return self._read(self._snapshot_names[snapshot.offset, snapshot.epoch])

    def read(self, offset: int) -> Iterator[bytes]:
        """Yield the valid batches of each segment, from the segment with this offset on."""
        for number, name in enumerate(self._segments):
            next_segment = self._segments[number + 1 : number + 2]
            if next_segment and int(next_segment[0][:-4]) <= offset:
                continue
            data = self._read(name)
            end = self._end(name, data, is_last=not next_segment)
            yield data[:end]

    def _end(self, name: str, data: bytes, *, is_last: bool) -> int:
        """Where the valid batches of a segment end.

        Only the last segment may have more bytes: preallocated space, or an incomplete or damaged
        batch.
        """
        try:
            for _ in walk(data):
                pass
        except CorruptBatchError as error:
            is_preallocated = not any(data[error.position : error.position + _MAGIC_POSITION + 1])
            may_be_batch = data[
                error.position + _MAGIC_POSITION : error.position + _MAGIC_POSITION + 1
            ] in {
                bytes([MAGIC]),
                b"",
            }
            if is_last and (is_preallocated or may_be_batch):
                return error.position
            path = os.path.join(self.path, name)
            raise CorruptLogError(f"{path} at position {error.position}: {error}") from error
        return len(data)

    def _read(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

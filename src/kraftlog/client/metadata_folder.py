"""The metadata log in a copied data directory of kraftlog or Apache Kafka."""

from __future__ import annotations

import os

from kraftlog.errors import ConfigError, CorruptBatchError, CorruptLogError
from kraftlog.metadata.history import state_at
from kraftlog.records.header import HEADER_SIZE, BatchHeader
from kraftlog.records.walk import walk
from kraftlog.storage.format import METADATA_FOLDER
from kraftlog.storage.meta_properties import NAME, parse
from kraftlog.storage.metadata_snapshots import parse_name
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.metadata.history import MetadataState, Moment
    from kraftlog.types import OffsetAndEpoch


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
        #: What is wrong with the end of the log, if it was read; empty if nothing is.
        self.damage = ""
        if not self._segments and not self._snapshots:
            raise ConfigError(
                f"{path} has no metadata log: expected a data directory with {METADATA_FOLDER}, or "
                "that folder"
            )

    def state_at(self, until: Moment) -> MetadataState:
        """The metadata as of a moment; raises CorruptLogError if nothing is left of it."""
        try:
            state = state_at(self, until)
        except ConfigError as error:
            if self.damage:
                raise CorruptLogError(self.damage) from error
            raise
        if state.offset < 0:
            raise CorruptLogError(self.damage or f"{self.path} holds no record of the metadata log")
        return state

    @property
    def cluster_id(self) -> str:
        """Empty if the metadata log was copied without the rest of its data directory."""
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), NAME)
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return parse(file.read(), path).cluster_id or ""

    @property
    def start(self) -> int:
        """The first offset of the segments; without any, the end offset of the newest snapshot."""
        return int(self._segments[0][:-4]) if self._segments else max(self._snapshots)[0]

    def snapshots(self) -> list[OffsetAndEpoch]:
        return [self._snapshots[key] for key in sorted(self._snapshots, reverse=True)]

    def read_snapshot(self, snapshot: OffsetAndEpoch) -> bytes:
        return self._read(self._snapshot_names[snapshot.offset, snapshot.epoch])

    def read(self, offset: int) -> Iterator[bytes]:
        """Yield the valid batches of each segment, from the segment with this offset on.

        Damage in the last segment is noted, not raised: a live node may just have been writing it.
        """
        end = 0
        for number, name in enumerate(self._segments):
            next_segment = self._segments[number + 1 : number + 2]
            if next_segment and int(next_segment[0][:-4]) <= offset:
                continue
            data = self._read(name)
            end_position, end, damage = _valid_batches(data, int(name[:-4]))
            yield data[:end_position]
            if damage:
                path = os.path.join(self.path, name)
                self.damage = f"{path} at position {end_position}: {damage}; {_held(end)}"
                if next_segment:
                    raise CorruptLogError(self.damage)
        newest = max(self._snapshots, default=(0, 0))[0]
        if end < newest and not self.damage:
            self.damage = f"{self.path} lacks the segment after its snapshot; {_held(newest)}"

    def _read(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()


def _valid_batches(data: bytes, base_offset: int) -> tuple[int, int, str]:
    """Where the valid batches of a segment end: position and offset; and what is wrong after them.

    Preallocated space, which is all zeros, is not wrong.
    """
    position, next_offset, damage = 0, base_offset, ""
    try:
        for start, fields in walk(data):
            header = BatchHeader(*fields)
            if header.base_offset != next_offset:
                damage = f"base offset {header.base_offset}, expected {next_offset}"
                break
            position, next_offset = start + header.size, header.next_offset
    except CorruptBatchError as error:
        damage = error.what
    rest = len(data) - position
    if rest >= HEADER_SIZE and data.count(0, position) == rest:
        damage = ""
    return position, next_offset, damage


def _held(end: int) -> str:
    """Up to which offset the log can be read."""
    return f"the log holds up to offset {end - 1}" if end else "the log holds no record"

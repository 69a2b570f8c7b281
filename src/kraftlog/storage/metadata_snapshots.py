"""Snapshots of the metadata log: Kafka's `<end offset>-<epoch>.checkpoint` beside the segments.

A snapshot is written under a temporary name and renamed once it is durable.
"""

from __future__ import annotations

from kraftlog.storage.disk import read_whole, unlink_if_there, write_all
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files

ENDING = ".checkpoint"
#: The suffix of a snapshot that is being written, or fetched from a leader.
UNFINISHED = ".part"
#: The suffix under which Kafka deletes a snapshot; kraftlog deletes it at once.
DELETED = ".deleted"


def name_of(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{ENDING}"


def parse_name(name: str) -> OffsetAndEpoch | None:
    stem = name.removesuffix(ENDING)
    offset, dash, epoch = stem.partition("-")
    if stem == name or not dash or not (offset.isdecimal() and epoch.isdecimal()):
        return None
    return OffsetAndEpoch(int(offset), int(epoch))


class MetadataSnapshots:
    """The snapshots in one folder."""

    def __init__(self, files: Files, folder: str) -> None:
        self.files = files
        self.folder = folder

    def remove_unfinished(self) -> None:
        """Delete the snapshots that an earlier process did not finish writing, or deleting."""
        for name in self.files.list(self.folder):
            if name.endswith((ENDING + UNFINISHED, ENDING + DELETED)):
                unlink_if_there(self.files, f"{self.folder}/{name}")

    def list_newest_first(self) -> list[OffsetAndEpoch]:
        """The complete snapshots, newest first."""
        parsed = [parse_name(name) for name in self.files.list(self.folder)]
        keys = [(snapshot.offset, snapshot.epoch) for snapshot in parsed if snapshot is not None]
        return [OffsetAndEpoch(*key) for key in sorted(keys, reverse=True)]

    def path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self.folder}/{name_of(snapshot)}"

    def read(self, snapshot: OffsetAndEpoch) -> bytes:
        return read_whole(self.files, self.path(snapshot))

    def read_unfinished(self, snapshot: OffsetAndEpoch) -> bytes:
        """Read the bytes that `write_part` has written so far."""
        return read_whole(self.files, self.path(snapshot) + UNFINISHED)

    def discard(self, snapshot: OffsetAndEpoch) -> None:
        """Delete an unfinished snapshot."""
        unlink_if_there(self.files, self.path(snapshot) + UNFINISHED)

    def read_part(self, snapshot: OffsetAndEpoch, position: int, size: int) -> tuple[int, bytes]:
        """The snapshot's size, and up to `size` bytes at this position."""
        fd = self.files.open(self.path(snapshot), write=False)
        try:
            return self.files.size(fd), self.files.pread(fd, size, position)
        finally:
            self.files.close(fd)

    def write_part(
        self, snapshot: OffsetAndEpoch, position: int, data: bytes, *, durably: bool = False
    ) -> None:
        """Write a part at its position; the part at position 0 starts the file over."""
        path = self.path(snapshot) + UNFINISHED
        if not position:
            unlink_if_there(self.files, path)
        fd = self.files.open(path, create=True)
        try:
            write_all(self.files, fd, [data], position, len(data))
            if durably:
                self.files.sync(fd)
        finally:
            self.files.close(fd)

    def finish(self, snapshot: OffsetAndEpoch) -> None:
        """Make a complete snapshot durable under its final name. Blocks."""
        path = self.path(snapshot)
        fd = self.files.open(path + UNFINISHED)
        try:
            self.files.sync(fd)
        finally:
            self.files.close(fd)
        self.files.rename(path + UNFINISHED, path)
        self.files.sync_folder(self.folder)

    def remove_before(self, offset: int) -> None:
        """Delete the snapshots that end before an offset."""
        for name in self.files.list(self.folder):
            snapshot = parse_name(name)
            if snapshot is not None and snapshot.offset < offset:
                unlink_if_there(self.files, f"{self.folder}/{name}")

"""The metadata logs of stopped nodes, and their images."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kraftlog.metadata.image import Image
from kraftlog.node.quorum.batches import records_in, summaries
from kraftlog.storage.metadata_snapshots import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraftlog.types import Buffer


class MetadataLog:
    """A node's newest snapshot, and its batches by base offset."""

    def __init__(self, data: str) -> None:
        folder = f"{data}/__cluster_metadata-0"
        names = os.listdir(folder)
        self.batches: dict[int, bytes] = {}
        self.end = 0
        for name in sorted(name for name in names if name.endswith(".log")):
            for batch in summaries(_content(f"{folder}/{name}")):
                assert batch.payload is not None
                self.batches[batch.base_offset] = bytes(batch.payload)
                self.end = batch.last_offset + 1
        snapshots = [id_ for id_ in map(parse_name, names) if id_ is not None]
        newest = max(snapshots, key=lambda id_: id_.offset, default=None)
        self.snapshot_end = 0 if newest is None else newest.offset
        self.snapshot: Buffer = b""
        if newest is not None:
            self.snapshot = _content(
                f"{folder}/{newest.offset:020d}-{newest.epoch:010d}.checkpoint"
            )
        self.end = max(self.end, self.snapshot_end)

    def image(self, until: int) -> Image:
        """The image of the records before an offset."""
        image = Image()
        for record in records_in(self.snapshot):
            image.replay(record)
        for base, batch in sorted(self.batches.items()):
            if self.snapshot_end <= base < until:
                for record in records_in(batch):
                    image.replay(record)
        return image


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def differences(logs: Mapping[str, MetadataLog], committed: int | None = None) -> Iterable[str]:
    """Differences between the logs, or between their images at the same offset.

    The offset is `committed`, or else the end of the shortest log. Controllers that are brokers too
    append records while they stop, so their logs may end with different uncommitted records.
    """
    until = min(log.end for log in logs.values()) if committed is None else committed
    comparable = {name: log for name, log in logs.items() if log.snapshot_end <= until}
    for name, log in logs.items():
        if committed is None and name not in comparable:
            yield (
                f"the snapshot of {name} ends at {log.snapshot_end}, "
                f"beyond the end {until} of the shortest log"
            )
    if len(comparable) < 2:
        return
    (first_name, first), *others = comparable.items()
    image = first.image(until)
    for name, log in others:
        for base in log.batches.keys() & first.batches.keys():
            if base < until and log.batches[base] != first.batches[base]:
                yield f"the batches of {first_name} and {name} at {base} differ"
        other_image = log.image(until)
        for map_name, entries in image.maps().items():
            if entries != other_image.maps()[map_name]:
                other_entries = other_image.maps()[map_name]
                both = f"{first_name} and {name}"
                yield f"{map_name} at {until} of {both}: {entries} != {other_entries}"

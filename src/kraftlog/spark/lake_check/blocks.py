"""SHA-256 of records by blocks of offsets, and of a partition, which are hard to forge.

A block has the records whose offsets are equal when divided by `BLOCK`, so it does not depend on
how records are spread over files, batches and tasks; and the tasks need not wait for each other.
docs/use/verify.md says how to compute a partition's digest by other means.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from kraftlog.records.arrow import values_of
from kraftlog.spark.lake_check.checksums import streams
from kraftlog.spark.lake_check.lake_files import OFFSET

if TYPE_CHECKING:
    import pyarrow as pa

#: The offsets of a block. A task compares whole blocks, so they should not be large.
BLOCK = 1 << 14
_FORMAT = b"kraftlog records 1\n"


class Blocks:
    """The digests of the blocks of a range or of a partition, by number of the block."""

    def __init__(self) -> None:
        self.digests: dict[int, tuple[int, bytes]] = {}
        #: The block that is not complete yet: its number, count of records, and hashes of streams.
        self._open: tuple[int, int, dict[str, Any]] | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next records, in order of offsets."""
        numbers = values_of(rows.column(OFFSET)) // BLOCK
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
            self._add_part(int(numbers[start]), rows.slice(start, end - start))

    def _add_part(self, number: int, rows: pa.RecordBatch) -> None:
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = (number, 0, {})
        _, count, hashes = self._open
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            for stream, data in streams(name, column):
                if stream not in hashes:
                    hashes[stream] = hashlib.sha256()
                hashes[stream].update(data)
        self._open = (number, count + len(rows), hashes)

    def close(self) -> None:
        """Complete the last block; without that, the digests cannot go to another process."""
        if self._open is None:
            return
        number, count, hashes = self._open
        whole = hashlib.sha256()
        for name in sorted(hashes):
            whole.update(name.encode() + b"\0" + hashes[name].digest())
        self.digests[number] = (count, whole.digest())
        self._open = None

    def append(self, later: Blocks) -> None:
        """Add the blocks of another range of the partition."""
        self.close()
        later.close()
        self.digests.update(later.digests)

    def text(self) -> str:
        """The digest of all blocks in hexadecimal, or a dash if there are no records."""
        self.close()
        if not self.digests:
            return "-"
        whole = hashlib.sha256(_FORMAT)
        for number, (count, digest) in sorted(self.digests.items()):
            whole.update(struct.pack(">qq", number, count) + digest)
        return whole.hexdigest()

"""Scans a segment from start to end: checks every batch and rebuilds the indexes.

Recovery depends on it, so it is fast (a few hundred nanoseconds a batch, without the CRC) and
trusts nothing: it stops at the first bytes that are not a valid next batch, and describes them.
"""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptBatchError
from kraftlog.records.crc import crc32c
from kraftlog.records.header import (
    CONTROL_BIT,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    read_header,
)
from kraftlog.storage.batches import read_marker
from kraftlog.storage.config import MAX_RELATIVE_OFFSET
from kraftlog.storage.index import OffsetIndex, TimeIndex
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.logstate.epochs import EpochCache
    from kraftlog.logstate.producers import CompletedTransaction, ProducerState
    from kraftlog.storage.disk import Disk, Handle

#: Bytes per read.
CHUNK = 256 << 10
#: base offset, length, epoch, magic, CRC, attributes, last offset delta, max timestamp, producer
#: id, record count
SCANNED = struct.Struct(">qiibIhi8xqq6xi")
assert SCANNED.size == HEADER_SIZE


class Scan:
    """The state of one scan of a segment; `feed` continues it.

    `position` and `next_offset` are the end of the valid part; `problem` describes invalid bytes
    after it. The scan updates `epochs` and `producers`, the latter by batches from `producers_from`
    on.
    """

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int,
        *,
        with_crc: bool = True,
        epochs: EpochCache | None = None,
        producers: ProducerState | None = None,
        producers_from: int = 0,
        last_epoch: int = -1,
    ) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.with_crc = with_crc
        self.epochs = epochs
        self.producers = producers
        self.producers_from = producers_from
        self.position = 0
        self.next_offset = base_offset
        self.problem = ""
        #: whether the problem is only that a valid batch has offsets out of this segment's range
        self.is_out_of_range = False
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        #: Bytes since the last index entry.
        self.since_entry = 0
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        #: Aborted transactions, each with the last stable offset after its marker.
        self.aborted: list[tuple[CompletedTransaction, int]] = []
        self._epoch = last_epoch

    def feed(self, view: memoryview) -> int:
        """Check the whole batches at the front of `view`; return their size."""
        unpack, crc, with_crc = SCANNED.unpack_from, crc32c, self.with_crc
        interval, since, next_offset = self.interval_bytes, self.since_entry, self.next_offset
        max_timestamp, last_epoch = self.max_timestamp, self._epoch
        base_offset, limit = self.base_offset, self.base_offset + MAX_RELATIVE_OFFSET
        start, pos, end = self.position, 0, len(view)
        while end - pos >= HEADER_SIZE:
            base, length, epoch, magic, checksum, attributes, delta, timestamp, producer, count = (
                unpack(view, pos)
            )
            last = base + delta
            if (
                magic != MAGIC
                or length < MIN_LENGTH
                or base < next_offset
                or not 0 <= count <= delta + 1
                or epoch < last_epoch
            ):
                self.problem = self._explain(view, pos, next_offset, last_epoch)
                break
            following = pos + length + LENGTH_OVERHEAD
            if following > end:
                break
            if with_crc and crc(view[pos + CRC_START : following]) != checksum:
                self.problem = f"the batch at offset {base} has a wrong checksum"
                break
            if last > limit:
                self.problem = f"a batch to offset {last} is out of range for segment {base_offset}"
                self.is_out_of_range = True
                break
            if producer >= 0 and self.producers is not None and base >= self.producers_from:
                try:
                    self._apply(view, pos, attributes)
                except CorruptBatchError as error:
                    self.problem = f"the control batch at offset {base}: {error}"
                    break
            if epoch != last_epoch:
                last_epoch = epoch
                if self.epochs is not None and epoch >= 0:
                    self.epochs.assign(epoch, base)
            if timestamp > max_timestamp:
                max_timestamp = timestamp
                self.max_timestamp_offset = last
                if start + pos == 0:
                    self.first_timestamp = timestamp
            if since > interval:
                self.offsets.append(last - base_offset, start + pos)
                self.times.append(max_timestamp, self.max_timestamp_offset - base_offset)
                since = 0
            since += following - pos
            next_offset = last + 1
            pos = following
        self.position, self.next_offset, self.since_entry = start + pos, next_offset, since
        self.max_timestamp, self._epoch = max_timestamp, last_epoch
        return pos

    def _apply(self, view: memoryview, pos: int, attributes: int) -> None:
        assert self.producers is not None
        marker = read_marker(view, pos) if attributes & CONTROL_BIT else None
        completed = self.producers.apply(read_header(view, pos), marker)
        if completed is not None and completed.aborted:
            self.aborted.append((completed, self.producers.stable_after(completed)))

    def _explain(self, view: memoryview, pos: int, next_offset: int, last_epoch: int) -> str:
        header = read_header(view, pos)
        if header.magic != MAGIC:
            return f"no record batch of format {MAGIC}"
        if header.batch_length < MIN_LENGTH:
            return f"a batch length of {header.batch_length}"
        if header.base_offset < next_offset:
            return f"a batch at offset {header.base_offset} where offset {next_offset} is expected"
        if header.leader_epoch < last_epoch:
            return f"a batch of epoch {header.leader_epoch} after one of epoch {last_epoch}"
        return f"a batch of {header.record_count} records to offset {header.last_offset}"


def scan_file(disk: Disk, handle: Handle, size: int, scan: Scan) -> Iterator[int]:
    """Continue a scan to the end of the file or the first problem; yields after each chunk."""
    buffer = memoryview(bytearray(min(CHUNK, max(size - scan.position, 1))))
    while scan.position < size and not scan.problem:
        left = size - scan.position
        part = buffer[: min(len(buffer), left)]
        count = disk.files.preadv(handle.use(), [part], scan.position)
        checked = scan.feed(part[:count])
        if checked == 0 and not scan.problem:
            needed = (
                LENGTH_OVERHEAD + SCANNED.unpack_from(part)[1] if count >= HEADER_SIZE else left
            )
            if count < len(part) or needed > left or count == left:
                scan.problem = f"a batch that is truncated after {left} bytes"
            else:
                buffer = memoryview(bytearray(min(left, 4 * needed)))
        yield checked

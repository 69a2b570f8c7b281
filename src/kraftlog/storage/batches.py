"""Descriptions of the batches that a log appends."""

from __future__ import annotations

import struct

from kraftlog.records.header import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_PRODUCER_ID,
    BatchHeader,
    read_header,
)
from kraftlog.records.walk import walk
from kraftlog.storage.config import MAX_RELATIVE_OFFSET
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.logstate.producers import Marker
    from kraftlog.types import Buffer

#: Base offset, batch length and last offset delta: the fields that a search needs.
BATCH_EXTENT = struct.Struct(">qi11xi")


class ProducerBatch(Value):
    """A batch with a producer id, and its marker if it ends a transaction."""

    header: BatchHeader
    marker: Marker | None = None


class Batches(Value):
    """Consecutive batches of one leader epoch, with offsets and epoch assigned.

    `max_timestamp_offset` is the last offset of the batch with the largest timestamp.
    """

    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp: int
    max_timestamp_offset: int
    leader_epoch: int
    producers: tuple[ProducerBatch, ...] = ()


def describe(buffers: Sequence[Buffer]) -> Batches:
    """Describe whole batches from their headers.

    All must be of one leader epoch; `split_by_epoch` splits a buffer that has several.
    """
    first = read_header(buffers[0])
    batches = Batches(first.base_offset, -1, 0, -1, -1, first.leader_epoch)
    producers = []
    for buffer in buffers:
        batches.size_bytes += len(buffer)
        for position, fields in walk(buffer):
            base, _, epoch, _, _, _, delta, _, timestamp, producer_id, _, _, _ = fields
            assert epoch == first.leader_epoch, "batches of different epochs"
            batches.last_offset = base + delta
            if timestamp > batches.max_timestamp:
                batches.max_timestamp, batches.max_timestamp_offset = timestamp, base + delta
            if producer_id != NO_PRODUCER_ID:
                header = BatchHeader(*fields)
                marker = read_marker(buffer, position) if header.is_control else None
                producers.append(ProducerBatch(header, marker))
    batches.producers = tuple(producers)
    return batches


def split_by_epoch(buffer: Buffer) -> list[memoryview]:
    """Split whole batches where the leader epoch changes."""
    view = memoryview(buffer)
    parts, start, current_epoch = [], 0, None
    for position, (_, _, epoch, *_) in walk(view):
        if current_epoch is not None and epoch != current_epoch:
            parts.append(view[start:position])
            start = position
        current_epoch = epoch
    return [*parts, view[start:]] if start < len(view) else parts


def split_by_segment(buffers: Sequence[Buffer], segment_bytes: int) -> Iterator[list[memoryview]]:
    """Split whole batches into parts that each fit into a segment, by size and by offsets."""
    part: list[memoryview] = []
    first_offset = size = 0
    for buffer in buffers:
        view = memoryview(buffer)
        for position, (base, length, _, _, _, _, delta, *_) in walk(view):
            batch = view[position : position + length + LENGTH_OVERHEAD]
            is_too_large = size + len(batch) > segment_bytes
            if part and (is_too_large or base + delta - first_offset > MAX_RELATIVE_OFFSET):
                yield part
                part, size = [], 0
            if not part:
                first_offset = base
            part.append(batch)
            size += len(batch)
    yield part


def read_marker(buffer: Buffer, position: int) -> Marker | None:
    """The marker in the control batch at `position`; None if it ends no transaction."""
    from kraftlog.logstate.producers import Marker
    from kraftlog.records.control import decode_control_key, decode_end_marker
    from kraftlog.records.reader import read_records
    from kraftlog.types import ControlType

    size = read_header(buffer, position).batch_length + LENGTH_OVERHEAD
    batch = memoryview(buffer)[position : position + size]
    for record in read_records(batch, with_crc=False):
        kind = decode_control_key(record.key)
        return Marker(kind, decode_end_marker(record.value)) if kind <= ControlType.COMMIT else None
    return None  # an empty control batch: compaction has removed the whole transaction


assert BATCH_EXTENT.size <= HEADER_SIZE

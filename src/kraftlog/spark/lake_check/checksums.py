"""CRC-32C of the columns of records in offset order, without an object per record.

A column of byte strings has two sums: of all its bytes, and of their lengths, where -1 is null.
Sums of adjacent ranges can be combined, so the sums of a partition do not depend on how its records
are spread over files and tasks. They tell copies apart that differ by accident. Who wants to can
forge them, so no comparison rests on them: that is of the bytes themselves.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.records.arrow import scalar, values_of
from kraftlog.records.crc import crc32c
from kraftlog.spark.schema import OUT_OF_RANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kraftlog.types import Buffer

#: Continues a checksum: takes more bytes and the sum of the bytes before them.
_crc = cast("Callable[[Buffer, int], int]", crc32c)
#: The polynomial of CRC-32C, bits reversed.
_POLYNOMIAL = 0x82F63B78


class Checksums:
    """The number of records, and the sum and size of each stream of bytes of their columns."""

    def __init__(self) -> None:
        self.count = 0
        self.streams: dict[str, tuple[int, int]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checksums):
            return NotImplemented
        return self.count == other.count and (not self.count or self.streams == other.streams)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, columns: Mapping[str, pa.Array]) -> None:
        """Add the next records, given by column."""
        for name, column in columns.items():
            for stream, data in streams(name, column):
                self._add_stream(stream, data)
        self.count += len(next(iter(columns.values())))

    def add_if_equal(self, columns: Mapping[str, pa.Array], others: Mapping[str, pa.Array]) -> bool:
        """Add the next records if the others have the same bytes; return whether they have.

        If not, some columns may have been added: these checksums are of no use any more.
        """
        for name, column in columns.items():
            ours, theirs = [*streams(name, column)], [*streams(name, others[name])]
            if len(ours) != len(theirs):
                return False
            for (stream, data), (_, other) in zip(ours, theirs, strict=True):
                if not pa.py_buffer(data).equals(pa.py_buffer(other)):
                    return False
                self._add_stream(stream, data)
        self.count += len(next(iter(columns.values())))
        return True

    def _add_stream(self, stream: str, data: memoryview) -> None:
        crc, size = self.streams.get(stream, (0, 0))
        self.streams[stream] = (_crc(data, crc), size + data.nbytes)

    def append(self, later: Checksums) -> None:
        """Add the records of a range that follows this one."""
        self.count += later.count
        for stream, (crc, size) in later.streams.items():
            before, size_before = self.streams.get(stream, (0, 0))
            self.streams[stream] = (combined(before, crc, size), size_before + size)

    def text(self) -> str:
        """One checksum of all streams in hexadecimal, or a dash if there are no records."""
        if not self.count:
            return "-"
        data = b"".join(struct.pack(">Iq", *self.streams[name]) for name in sorted(self.streams))
        return f"{crc32c(data):08x}"


def streams(name: str, column: pa.Array) -> Iterator[tuple[str, memoryview]]:
    """The streams of bytes, with their names, that are equal if and only if columns are equal."""
    kind = column.type
    if name == OUT_OF_RANGE:
        # Only its few values count, so that sums are those of a table without the column; the null
        # in `timestamp` says which records they are of.
        column = column.drop_null()
        if len(column):
            yield name, _numbers(column)
    elif pa.types.is_struct(kind):
        for field, child in zip(kind, column.flatten(), strict=True):
            yield from streams(f"{name}.{field.name}", child)
    elif pa.types.is_list(kind):
        # A record without headers may have null or an empty list of them.
        yield f"{name} counts", _numbers(column.value_lengths().fill_null(scalar(0, pa.int32())))
        yield from streams(name, column.flatten())
    elif pa.types.is_binary(kind) or pa.types.is_string(kind):
        yield f"{name} lengths", _numbers(pc.binary_length(column))
        yield f"{name} bytes", _bytes(column)
    else:
        yield name, _numbers(column.cast(pa.int64()) if kind != pa.int32() else column)


def _numbers(column: pa.Array) -> memoryview:
    if column.null_count:
        column = column.fill_null(scalar(-1, column.type))
    return values_of(column).data.cast("B")


def _bytes(column: pa.Array) -> memoryview:
    """The bytes of all elements, which Arrow stores one after the other."""
    if column.null_count:
        column = column.drop_null()  # Arrow allows bytes under a null, though no reader makes them
    if not len(column):
        return memoryview(b"")
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return memoryview(b"") if data is None else memoryview(data)[int(edges[0]) : int(edges[-1])]


def combined(first: int, second: int, size: int) -> int:
    """The sum of two adjacent pieces, of which the second has `size` bytes.

    A CRC is linear: append `size` zero bytes to the first piece, then XOR the sum of the second.
    """
    power = 0
    while size:
        if size & 1:
            first = _times(_zero_bytes(power), first)
        size >>= 1
        power += 1
    return first ^ second


@cache
def _zero_bytes(power: int) -> Sequence[int]:
    """The matrix by which 2^`power` zero bytes change a sum: a column for each bit of the sum."""
    if power == 0:
        column = [1 << bit for bit in range(32)]
        for _ in range(8):
            column = [each >> 1 ^ (_POLYNOMIAL if each & 1 else 0) for each in column]
        return column
    half = _zero_bytes(power - 1)
    return [_times(half, each) for each in half]


def _times(matrix: Sequence[int], vector: int) -> int:
    """The product of a matrix and a vector of bits, modulo 2."""
    result = 0
    for column in matrix:
        if vector & 1:
            result ^= column
        vector >>= 1
    return result

"""Encodes Arrow columns as the records of many batches at once, byte for byte as `builder` does.

numpy makes the varints of all records field by field; Arrow joins them with keys and values in C++.
No Python object is made per record. The counterpart of `columns`; a broker does not use it.
"""

from __future__ import annotations

from kraftlog.records.header import NO_TIMESTAMP
from kraftlog.records.varint import encode_varint
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

#: Largest size of a record besides its key, value and headers: length, attributes, both deltas, the
#: two lengths and the count of headers.
RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
#: Arrow's ordinary binary arrays count their bytes in 32 bits.
MAX_BYTES = (1 << 31) - 1


class HeaderColumn(Value):
    """The encoded headers of each record without their count, and the counts."""

    encoded: pa.BinaryArray
    counts: Numbers


class EncodedBatch(Value):
    """The uncompressed records of one batch, and the fields of its header that they determine."""

    records: memoryview
    count: int
    base_timestamp: int
    max_timestamp: int


def encode_batches(
    timestamps_ms: Numbers,
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    headers: HeaderColumn | None,
    counts: Sequence[int],
) -> list[EncodedBatch]:
    """Encode consecutive rows as batches of `counts` records each, numbered from 0 in each."""
    import numpy as np

    counted = np.array(counts, dtype=np.int64)
    firsts = counted.cumsum() - counted
    offset_deltas = np.arange(len(keys), dtype=np.int64) - firsts.repeat(counted)
    timestamp_deltas = timestamps_ms - timestamps_ms[firsts].repeat(counted)
    records, ends = encode_records(timestamp_deltas, offset_deltas, keys, values, headers)
    starts = [0, *ends[firsts[1:] - 1].tolist()]
    max_timestamps = np.maximum(np.maximum.reduceat(timestamps_ms, firsts), NO_TIMESTAMP)
    return [
        EncodedBatch(records[start:end], count, base, max_timestamp)
        for start, end, count, base, max_timestamp in zip(
            starts,
            ends[firsts + counted - 1].tolist(),
            counts,
            timestamps_ms[firsts].tolist(),
            max_timestamps.tolist(),
            strict=True,
        )
    ]


def encode_records(
    timestamp_deltas: Numbers,
    offset_deltas: Numbers,
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    headers: HeaderColumn | None = None,
) -> tuple[memoryview, Numbers]:
    """Encode records one after the other; return their bytes and the end of each."""
    import numpy as np

    count = len(keys)
    if headers is None:
        headers_count, headers_size = b"\0", np.ones(count, dtype=np.int64)
        header_parts: list[pa.BinaryArray | bytes] = [headers_count]
    else:
        encoded_counts = _Fields(count)
        encoded_counts.varint(headers.counts)
        header_parts = [encoded_counts.column(), headers.encoded]
        headers_size = encoded_counts.sizes + _lengths(headers.encoded)
    key_lengths, value_lengths = _lengths(keys), _lengths(values)

    value_front = _Fields(count)
    value_front.varint(value_lengths)
    front = _Fields(count)
    front.constant(b"\0")
    front.varint(timestamp_deltas)
    front.varint(offset_deltas)
    front.varint(key_lengths)
    bodies = (
        front.sizes
        + np.maximum(key_lengths, 0)
        + value_front.sizes
        + np.maximum(value_lengths, 0)
        + headers_size
    )
    front.varint(bodies, is_first=True)
    ends = (bodies + front.last_sizes).cumsum()
    if count and ends[-1] > MAX_BYTES:
        raise ValueError(f"{ends[-1]} bytes of records; encode fewer at a time")
    parts = [front.column(), keys, value_front.column(), values, *header_parts]
    return _join_bytes(parts), ends


def encode_headers(headers: pa.ListArray) -> HeaderColumn:
    """Encode a column of lists of structs of a key (text) and a value (bytes or null)."""
    import numpy as np
    import pyarrow as pa

    counts = _lengths(headers)
    pairs = headers.flatten()
    names = pairs.field("key").cast(pa.binary())
    contents = pairs.field("value")
    if pairs.null_count or names.null_count:
        raise ValueError("a header without a key")
    name_front, content_front = _Fields(len(pairs)), _Fields(len(pairs))
    name_front.varint(_lengths(names))
    content_front.varint(_lengths(contents))
    joined = _join([name_front.column(), names, content_front.column(), contents])
    edges = np.zeros(len(counts) + 1, dtype=np.int64)
    np.maximum(counts, 0).cumsum(out=edges[1:])
    ends = np.frombuffer(joined.buffers()[1], dtype=np.int32)[: len(joined) + 1]
    return HeaderColumn(
        pa.Array.from_buffers(
            pa.binary(), len(headers), [None, pa.py_buffer(ends[edges]), joined.buffers()[2]]
        ),
        np.maximum(counts, 0),
    )


def concatenated_headers(first: HeaderColumn, second: HeaderColumn) -> HeaderColumn:
    """The headers of `first`, then those of `second`, for each record."""
    return HeaderColumn(_join([first.encoded, second.encoded]), first.counts + second.counts)


class _Fields:
    """Consecutive small fields of each of many records, collected field by field."""

    def __init__(self, count: int) -> None:
        import numpy as np

        self._count = count
        #: Octets of a field and which records have it (None: all), in the order of the fields.
        self._octets: list[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]] = []
        self.sizes: Numbers = np.zeros(count, dtype=np.int64)
        #: The sizes of the field that was added last.
        self.last_sizes = self.sizes

    def constant(self, content: bytes, *, is_first: bool = False) -> None:
        import numpy as np

        octets: list[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]] = [
            (np.full(self._count, octet, dtype=np.uint8), None) for octet in content
        ]
        self._octets = octets + self._octets if is_first else self._octets + octets
        self.last_sizes = np.full(self._count, len(content), dtype=np.int64)
        self.sizes += len(content)

    def varint(self, numbers: Numbers, *, is_first: bool = False) -> None:
        """Add a zigzag varint, after the other fields or before them."""
        import numpy as np

        if self._count and (numbers == numbers[0]).all():
            self.constant(encode_varint(int(numbers[0])), is_first=is_first)
            return
        rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        octets: list[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]] = []
        sizes = np.ones(self._count, dtype=np.int64)
        is_present: NDArray[np.bool_] | None = None
        while True:
            low = (rest & np.uint64(0x7F)).astype(np.uint8)
            rest = rest >> np.uint64(7)
            continues = rest != 0
            if not continues.any():
                octets.append((low, is_present))
                break
            octets.append((low | (continues.view(np.uint8) << 7), is_present))
            sizes += continues
            is_present = continues
        self._octets = octets + self._octets if is_first else self._octets + octets
        self.sizes += sizes
        self.last_sizes = sizes

    def column(self) -> pa.BinaryArray:
        """The fields of each record as one byte string."""
        import numpy as np
        import pyarrow as pa

        table = np.empty((self._count, len(self._octets)), dtype=np.uint8)
        for place, (octets, _) in enumerate(self._octets):
            table[:, place] = octets
        if any(is_present is not None for _, is_present in self._octets):
            used = np.empty(table.shape, dtype=np.bool_)
            for place, (_, is_present) in enumerate(self._octets):
                used[:, place] = True if is_present is None else is_present
            packed = table[used]
        else:
            packed = table.reshape(-1)
        edges = np.zeros(self._count + 1, dtype=np.int32)
        self.sizes.cumsum(out=edges[1:])
        return pa.Array.from_buffers(
            pa.binary(), self._count, [None, pa.py_buffer(edges), pa.py_buffer(packed)]
        )


def _lengths(column: pa.Array) -> Numbers:
    """The length of each element; -1 if it is null."""
    import numpy as np
    import pyarrow as pa

    from kraftlog.records.arrow import nulls_of

    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    edges = np.frombuffer(column.buffers()[1], dtype=width)[
        column.offset : column.offset + len(column) + 1
    ]
    lengths = np.diff(edges).astype(np.int64)
    if column.null_count:
        lengths[nulls_of(column)] = -1
    return lengths


def _join(parts: Sequence[pa.BinaryArray | bytes]) -> pa.BinaryArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    from kraftlog.records.arrow import byte_strings

    scalars = [
        byte_strings([part], pa.binary())[0] if isinstance(part, bytes) else part
        for part in (*parts, b"")  # the last one separates the others
    ]
    return pc.binary_join_element_wise(*scalars, null_handling="replace", null_replacement=b"")


def _join_bytes(parts: Sequence[pa.BinaryArray | bytes]) -> memoryview:
    joined = _join(parts)
    return memoryview(joined.buffers()[2] or b"").cast("B")

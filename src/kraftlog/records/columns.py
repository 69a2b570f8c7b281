"""Decodes the records of many batches at once into columns, with numpy.

Only the start of each record must be found sequentially, as a record's length leads to the next
one; that loop is as short as Python allows. Then numpy decodes field by field, each for all records
at once.

This is for analysis (the extra `arrow` installs numpy); a broker does not use it. It accepts and
refuses the same batches as `reader`.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.header import TIMESTAMP_TYPE_BIT, BatchHeader
from kraftlog.records.reader import (
    MAX_RECORDS_SIZE,
    MIN_RECORD_SIZE,
    check_crc,
    records_payload,
)
from kraftlog.records.varint import decode_varint
from kraftlog.records.walk import walk
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kraftlog.types import Buffer

    Numbers = NDArray[np.int64]
    Octets = NDArray[np.uint8]


class RecordColumns:
    """Records as columns. Bytes are given by start and length in `payload`; length -1 is null.

    The headers of all records are in one list; `header_counts` is the number of each record's.
    """

    __slots__ = (
        "header_counts",
        "header_key_lengths",
        "header_key_starts",
        "header_value_lengths",
        "header_value_starts",
        "key_lengths",
        "key_starts",
        "offsets",
        "payload",
        "timestamps",
        "value_lengths",
        "value_starts",
    )

    payload: bytes
    offsets: Numbers
    timestamps: Numbers
    key_starts: Numbers
    key_lengths: Numbers
    value_starts: Numbers
    value_lengths: Numbers
    header_counts: Numbers
    header_key_starts: Numbers
    header_key_lengths: Numbers
    header_value_starts: Numbers
    header_value_lengths: Numbers

    def __len__(self) -> int:
        return len(self.offsets)


def decode_batches(
    buffer: Buffer,
    *,
    with_crc: bool = True,
    with_control: bool = False,
    max_size: int = MAX_RECORDS_SIZE,
) -> RecordColumns:
    """Decode the records of the batches in `buffer`; a partial last batch is ignored.

    `max_size` bounds the total decompressed size of all batches.
    """
    headers = []
    payloads = []
    room = max_size
    for position, fields in walk(buffer, may_end_in_batch=True):
        header = BatchHeader(*fields)
        if with_crc:
            check_crc(buffer, header, position)
        if header.is_control and not with_control:
            continue
        payload = records_payload(buffer, header, position, max_size=room)
        room -= len(payload) if header.codec else 0
        headers.append(header)
        payloads.append(payload)
    return decode_payloads(headers, payloads)


def decode_payloads(headers: Sequence[BatchHeader], payloads: Sequence[bytes]) -> RecordColumns:
    """Decode the records of batches whose payloads are decompressed already."""
    import numpy as np

    whole = b"".join(payloads) if len(payloads) != 1 else payloads[0]
    octets = np.frombuffer(whole, dtype=np.uint8)
    starts = []
    batch_ends = []
    end = 0
    for header, payload in zip(headers, payloads, strict=True):
        start, end = end, end + len(payload)
        starts += find_records(octets, whole, start, end, header.record_count)
        batch_ends.append(end)
    counts = np.array([header.record_count for header in headers], dtype=np.int64)

    def of_batch(numbers: list[int]) -> Numbers:
        """Repeat the number of each batch for each of its records."""
        return np.array(numbers, dtype=np.int64).repeat(counts)

    columns = RecordColumns()
    columns.payload = whole
    cursor = _Cursor(octets, np.concatenate(starts) if starts else np.empty(0, dtype=np.int64))
    sizes = cursor.take_varint()
    ends = cursor.positions + sizes
    cursor.ends = ends
    cursor.positions = cursor.positions + 1  # a record's attributes are unused
    timestamp_deltas = cursor.take_varint(bits=64)
    offset_deltas = cursor.take_varint()
    columns.key_starts, columns.key_lengths = cursor.take_bytes()
    columns.value_starts, columns.value_lengths = cursor.take_bytes()
    _take_headers(cursor, columns)

    _require(cursor.positions == ends, "a record does not end where its length says")
    _require(ends <= of_batch(batch_ends), "a record of a wrong size")
    _require(
        (offset_deltas >= 0) & (offset_deltas <= of_batch([h.last_offset_delta for h in headers])),
        "an offset outside of its batch",
    )
    columns.offsets = of_batch([header.base_offset for header in headers]) + offset_deltas
    columns.timestamps = of_batch([header.base_timestamp for header in headers]) + timestamp_deltas
    if any(header.attributes & TIMESTAMP_TYPE_BIT for header in headers):
        append_time = of_batch([header.attributes & TIMESTAMP_TYPE_BIT for header in headers]) != 0
        columns.timestamps[append_time] = of_batch([h.max_timestamp for h in headers])[append_time]
    return columns


#: A shorter run of records of one size is not worth the search for it.
_SHORT_RUN = 32
#: Records that are stepped over one by one after the first short run, before the next run is looked
#: for; after each further short run, twice as many.
_STEPS = 64


def find_records(octets: Octets, payload: bytes, start: int, end: int, count: int) -> list[Numbers]:
    """The starts of the records of `payload[start:end]`, in pieces; the records must fill it.

    Records of one size often follow each other; numpy then finds the whole run at once.
    """
    import numpy as np

    if count * MIN_RECORD_SIZE > end - start:
        raise CorruptBatchError(f"{count} records in {end - start} bytes")
    found: list[Numbers] = []
    position = start
    steps = _STEPS
    while count:
        run, size = _equal_sizes(octets, payload, position, end, count)
        if run:
            found.append(np.arange(position, position + run * size, size, dtype=np.int64))
            position += run * size
            count -= run
        if run < _SHORT_RUN and count:
            stepped: list[int] = []
            position = _step(payload, position, min(steps, count), stepped)
            found.append(np.array(stepped, dtype=np.int64))
            count -= len(stepped)
            steps *= 2
    if position != end:
        raise CorruptBatchError(f"the records end {end - position} bytes before their batch")
    return found


def _equal_sizes(
    octets: Octets, payload: bytes, position: int, end: int, count: int
) -> tuple[int, int]:
    """How many records from `position` on begin with the same two bytes, and their size.

    The size is in the first byte, or in the first two; larger records are left to `_step`.
    """
    if end - position < MIN_RECORD_SIZE:
        return 0, 0
    low, high = payload[position], payload[position + 1]
    if low < 0x80:
        size = 1 + (low >> 1)
    elif high < 0x80:
        size = 2 + ((high << 7 | low & 0x7F) >> 1)
    else:
        return 0, 0
    most = min(count, (end - position) // size)
    if size < MIN_RECORD_SIZE or most < _SHORT_RUN:
        return 0, 0
    span = octets[position : position + most * size]
    is_equal = (span[::size] == low) & (span[1::size] == high)
    run = int(is_equal.argmin())  # the first is equal, so 0 means that all are
    return run or most, size


def _step(payload: bytes, position: int, count: int, starts: list[int]) -> int:
    """Append the starts of the next records to `starts`; return the position after them."""
    append = starts.append
    try:
        for _ in range(count):
            append(position)
            low = payload[position]
            if low < 0x80:
                position += 1 + (low >> 1)
                continue
            high = payload[position + 1]
            if high < 0x80:
                position += 2 + ((high << 7 | low & 0x7F) >> 1)
                continue
            size, position = decode_varint(payload, position, max_bits=32)
            position += max(size, 0)
    except IndexError:
        raise CorruptBatchError("a record is truncated", position=starts[-1]) from None
    except ValueError as error:
        raise CorruptBatchError(f"a record's size: {error}", position=starts[-1]) from None
    return position


class _Cursor:
    """A position in each of many records, which advances through all of them field by field.

    A position may pass the end of its record, but never 2^63, as a field has at most 2^31 bytes.
    Reads beyond the end return arbitrary bytes; as positions only grow, the caller's final check of
    the ends finds this.
    """

    __slots__ = ("ends", "octets", "positions")

    def __init__(self, octets: Octets, positions: Numbers) -> None:
        self.octets = octets
        self.positions = positions
        self.ends = positions

    def take_varint(self, *, bits: int = 32) -> Numbers:
        """Read the next field of every record, a zigzag varint."""
        import numpy as np

        octet = self.octets.take(self.positions, mode="clip")
        number = (octet & 0x7F).astype(np.uint64)
        positions = self.positions + 1
        longer = np.flatnonzero(octet & 0x80)
        shift = 7
        while len(longer):
            if shift >= bits:
                raise CorruptBatchError(f"a number of more than {bits} bits")
            octet = self.octets.take(positions[longer], mode="clip")
            part = (octet & 0x7F).astype(np.uint64)
            if bits - shift < 7:
                _require(part >> np.uint64(bits - shift) == 0, f"a number of more than {bits} bits")
            number[longer] |= part << np.uint64(shift)
            positions[longer] += 1
            longer = longer[octet >= 0x80]
            shift += 7
        self.positions = positions
        sign = -(number & np.uint64(1)).astype(np.int64)
        return (number >> np.uint64(1)).astype(np.int64) ^ sign

    def take_bytes(self) -> tuple[Numbers, Numbers]:
        """Read the start and length of the next field of every record; it may be null."""
        import numpy as np

        lengths = self.take_varint()
        starts = self.positions
        self.positions = starts + np.maximum(lengths, 0)
        return starts, np.maximum(lengths, -1)


#: For fewer records, a Python loop is faster than numpy's overhead per call.
_FEW = 16


def _take_headers(cursor: _Cursor, columns: RecordColumns) -> None:
    """Read all headers: the first of every record, then the second where there is one, ..."""
    import numpy as np

    counts = cursor.take_varint()
    room = np.maximum(cursor.ends - cursor.positions, 0)
    _require((counts >= 0) & (counts <= room // 2), "a wrong count of headers")
    headers = np.empty((4, int(counts.sum())), dtype=np.int64)
    firsts = counts.cumsum() - counts
    records = np.flatnonzero(counts)
    number = 0
    while len(records) >= _FEW:
        inner = _Cursor(cursor.octets, cursor.positions[records])
        name_starts, name_lengths = inner.take_bytes()
        _require(name_lengths >= 0, "a header without a name")
        value_starts, value_lengths = inner.take_bytes()
        headers[:, firsts[records] + number] = (
            name_starts,
            name_lengths,
            value_starts,
            value_lengths,
        )
        cursor.positions[records] = inner.positions
        number += 1
        records = records[counts[records] > number]
    for record in records.tolist():
        for index in range(firsts[record] + number, firsts[record] + counts[record]):
            cursor.positions[record] = _take_header(
                columns.payload, int(cursor.positions[record]), headers, index
            )
    columns.header_counts = counts
    columns.header_key_starts, columns.header_key_lengths = headers[0], headers[1]
    columns.header_value_starts, columns.header_value_lengths = headers[2], headers[3]


def _take_header(payload: bytes, position: int, headers: Numbers, index: int) -> int:
    """Decode one header into column `index` of `headers`; return the position after it."""
    try:
        name_length, name_start = decode_varint(payload, position, max_bits=32)
        if name_length < 0:
            raise ValueError("it has no name")
        value_length, value_start = decode_varint(payload, name_start + name_length, max_bits=32)
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a header: {error}", position=position) from None
    headers[:, index] = name_start, name_length, value_start, max(value_length, -1)
    return value_start + max(value_length, 0)


def _require(valid: NDArray[np.bool_], what: str) -> None:
    if not valid.all():
        raise CorruptBatchError(f"{what} (record {int(valid.argmin())} of those decoded)")

"""Walks from batch to batch by their headers, in memory or on disk.

A step takes a fraction of a microsecond and creates only the tuple of the header's fields, in the
order of `BatchHeader` (`BatchHeader(*fields)` converts it). The fields and the order of the offsets
are checked, the CRC is not. An error raises `CorruptBatchError` with the end of the last valid
batch as its `position`.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.header import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAX_OFFSET,
    MIN_LENGTH,
    BatchHeader,
    check_header,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.types import Buffer

    #: base offset, batch length, leader epoch, magic, CRC, attributes, last offset delta, base
    #: timestamp, max timestamp, producer id, producer epoch, base sequence, record count
    Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
    Pread = Callable[[int, int], Buffer]


def walk(
    buffer: Buffer, start: int = 0, end: int | None = None, *, may_end_in_batch: bool = False
) -> Iterator[tuple[int, Fields]]:
    """Yield position and header fields of each batch in `buffer[start:end]`.

    With `may_end_in_batch` a partial last batch, as in a fetch response, is no error.
    """
    unpack = HEADER.unpack_from
    position = start
    end = len(buffer) if end is None else end
    next_offset = 0
    while end - position >= HEADER_SIZE:
        fields: Fields = unpack(buffer, position)
        base_offset, length, _, magic, _, _, last_delta, _, _, _, _, _, count = fields
        if (
            magic != MAGIC
            or length < MIN_LENGTH
            or base_offset < next_offset
            or not 0 <= last_delta <= MAX_OFFSET - base_offset
            or not 0 <= count <= last_delta + 1
        ):
            raise _error(fields, position, next_offset)
        following = position + LENGTH_OVERHEAD + length
        if following > end:
            break
        yield position, fields
        next_offset = base_offset + last_delta + 1
        position = following
    if position < end and not may_end_in_batch:
        raise CorruptBatchError(
            f"a batch truncated after {end - position} bytes", position=position
        )


def walk_file(pread: Pread, start: int, end: int) -> Iterator[tuple[int, Fields]]:
    """Like `walk`, for a file of `end` bytes, with reads of 61 bytes: `pread(size, offset)`."""
    position = start
    next_offset = 0
    while end - position >= HEADER_SIZE:
        head = pread(HEADER_SIZE, position)
        if len(head) < HEADER_SIZE:
            break
        fields: Fields = HEADER.unpack(head)
        if not _is_valid(fields, next_offset):
            raise _error(fields, position, next_offset)
        following = position + LENGTH_OVERHEAD + fields[1]
        if following > end:
            break
        yield position, fields
        next_offset = fields[0] + fields[6] + 1
        position = following
    if position < end:
        raise CorruptBatchError(
            f"a batch truncated after {end - position} bytes", position=position
        )


def _is_valid(fields: Fields, next_offset: int) -> bool:
    """The checks that `walk` has inline, where a call would take a third of its speed."""
    base_offset, length, _, magic, _, _, last_delta, _, _, _, _, _, count = fields
    return (
        magic == MAGIC
        and length >= MIN_LENGTH
        and base_offset >= next_offset
        and 0 <= last_delta <= MAX_OFFSET - base_offset
        and 0 <= count <= last_delta + 1
    )


def _error(fields: Fields, position: int, next_offset: int) -> CorruptBatchError:
    """The error for the rule that an invalid header breaks."""
    header = BatchHeader(*fields)
    try:
        check_header(header, position)
    except CorruptBatchError as error:
        return error
    return CorruptBatchError(
        f"base offset {header.base_offset} where {next_offset} is next", position=position
    )

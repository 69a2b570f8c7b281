"""The primitive types that generated code reads and writes by calls; the others are inlined.

Reading functions raise `IndexError`, `struct.error` or `Malformed` for invalid bytes; the codec
converts all of them to `ProtocolError` (see `explain`).
"""

from __future__ import annotations

import struct

from kraftlog.types import text_as_java
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.types import Buffer


class Malformed(Exception):  # noqa: N818 - internal: the codec converts it
    """The bytes are invalid; internal to the codec."""


class LongStringError(struct.error):
    """A string is too long to be written."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"string of {size_bytes} bytes, at most {LONGEST_STRING} are written")


#: The encodings of the most frequent unsigned varints, those of 0 to 255.
UVARINT = [bytes((n,)) for n in range(128)] + [
    bytes((n & 0x7F | 0x80, n >> 7)) for n in range(128, 256)
]


def uvarint(value: int) -> bytes:
    if value < len(UVARINT):
        return UVARINT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: Kafka's limit, also for compact strings.
LONGEST_STRING = 32767
#: A compact length is one more than the count. Kafka subtracts the 1 in 32-bit signed integers:
#: from this length, that overflows to the largest count; from any larger length, it gives a
#: negative count, which means null.
LARGEST_COMPACT_LENGTH = 1 << 31


def string_as_java(piece: Buffer) -> str:
    """Decode a string as Java does.

    U+FFFD, for invalid bytes, takes three bytes: a string that has become too long to be encoded
    again is refused.
    """
    raw = bytes(piece)
    text = text_as_java(raw)
    if len(raw) > LONGEST_STRING // 3 and len(text.encode()) > LONGEST_STRING:
        raise Malformed("string too long once read")
    return text


def rest_of_uvarint(buf: Any, pos: int, first: int) -> tuple[int, int]:
    """Finish reading a varint of at most 32 bits; `first`, its first byte, is read already."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Malformed("varint beyond 32 bits")
            return value, pos
    raise Malformed("varint longer than five bytes")


def rest_of_length(buf: Any, pos: int, first: int) -> tuple[int, int]:
    """Finish a compact length, the count + 1; a length beyond Kafka's largest becomes 0, null."""
    value, pos = rest_of_uvarint(buf, pos, first)
    return (value, pos) if value <= LARGEST_COMPACT_LENGTH else (0, pos)


def rest_of_text_length(buf: Any, pos: int, first: int) -> tuple[int, int]:
    """Finish the length of a compact string of at most LONGEST_STRING bytes.

    A longer string could not be returned in an older version, whose lengths have 16 bits.
    """
    value, pos = rest_of_length(buf, pos, first)
    if value > LONGEST_STRING + 1:
        raise Malformed("string longer than the limit")
    return value, pos


def skip_tags(buf: Any, pos: int, end: int, first: int) -> int:
    """Skip unknown tagged fields; `first`, the first byte of their count, is read already."""
    return read_tags(buf, pos, end, first, None)


def read_tags(buf: Any, pos: int, end: int, first: int, fields: list[Any] | None) -> int:
    """Like `skip_tags`, but append (tag, position, end) of each to `fields`, if given.

    Returns the position after the tagged section.
    """
    count = first
    if first > 0x7F:
        count, pos = rest_of_uvarint(buf, pos, first)
    last = -1
    for _ in range(count):
        tag = buf[pos]
        pos += 1
        if tag > 0x7F:
            tag, pos = rest_of_uvarint(buf, pos, tag)
        if tag <= last:
            raise Malformed("tags out of order")
        last = tag
        size = buf[pos]
        pos += 1
        if size > 0x7F:
            size, pos = rest_of_uvarint(buf, pos, size)
        if size > end - pos:
            raise Malformed("tagged field longer than the message")
        if fields is not None:
            fields.append((tag, pos, pos + size))
        pos += size
    return pos


class Memo(dict["Any", "Any"]):
    """A cache of the encoding or decoding of repeated values; it is cleared when it is full."""

    LIMIT = 4096

    def keep(self, key: Any, value: Any) -> Any:
        if len(self) >= self.LIMIT:
            self.clear()
        self[key] = value
        return value


_STRING_MEMO_SIZE = 255  # longer strings are not names and rarely repeat
_strings = Memo()
_compact_strings = Memo()


def put_string(text: str) -> bytes:
    """Encode a string, preceded by its length in two bytes."""
    known = _strings.get(text)
    if known is not None:
        return known  # type: ignore[no-any-return]  # a Memo holds anything
    raw = text.encode()
    if len(raw) > LONGEST_STRING:
        raise LongStringError(len(raw))
    out = struct.pack(">h", len(raw)) + raw
    return _strings.keep(text, out) if len(raw) <= _STRING_MEMO_SIZE else out


def put_compact_string(text: str) -> bytes:
    """Encode a string, preceded by a varint of its length + 1."""
    known = _compact_strings.get(text)
    if known is not None:
        return known  # type: ignore[no-any-return]  # a Memo holds anything
    raw = text.encode()
    if len(raw) > LONGEST_STRING:
        raise LongStringError(len(raw))
    out = uvarint(len(raw) + 1) + raw
    return _compact_strings.keep(text, out) if len(raw) <= _STRING_MEMO_SIZE else out


class Numbers:
    """Reads and writes arrays of one kind of number (or of UUIDs).

    Replica lists repeat endlessly, so short arrays are cached in both directions: the same bytes
    give the same tuple, and the same tuple the same bytes.
    """

    LONGEST_CACHED = 16

    def __init__(self, code: str, size: int) -> None:
        self.code = code
        self.size = size
        #: Precompiled structs by number of items.
        self.structs: dict[int, Any] = {}
        #: Caches: array to bytes, in both encodings, and bytes to array.
        self.encoded = Memo()
        self.encoded_compact = Memo()
        self.decoded = Memo()

    def struct_of(self, count: int) -> Any:
        """A precompiled struct of `count` items; only short ones are cached."""
        layout = self.code * count if self.code == "16s" else f"{count}{self.code}"
        compiled = struct.Struct(">" + layout)
        if count <= self.LONGEST_CACHED:
            self.structs[count] = compiled
        return compiled

    def read(self, buf: Any, pos: int, count: int) -> tuple[Any, ...]:
        """Read `count` items at `pos`; the caller has checked the size and advances."""
        compiled = self.structs.get(count) or self.struct_of(count)
        return compiled.unpack_from(buf, pos)  # type: ignore[no-any-return]  # struct gives tuples

    def _pack(self, values: Sequence[Any]) -> bytes:
        compiled = self.structs.get(len(values)) or self.struct_of(len(values))
        return compiled.pack(*values)  # type: ignore[no-any-return]  # struct gives bytes

    def put(self, values: Sequence[Any]) -> bytes:
        """Encode an array, preceded by its length in four bytes; a tuple is faster than a list."""
        if type(values) is not tuple:
            values = tuple(values)
        known = self.encoded.get(values)
        if known is not None:
            return known  # type: ignore[no-any-return]  # a Memo holds anything
        out = struct.pack(">i", len(values)) + self._pack(values)
        return self.encoded.keep(values, out) if len(values) <= self.LONGEST_CACHED else out

    def put_compact(self, values: Sequence[Any]) -> bytes:
        """Encode an array, preceded by a varint of its length + 1."""
        if type(values) is not tuple:
            values = tuple(values)
        known = self.encoded_compact.get(values)
        if known is not None:
            return known  # type: ignore[no-any-return]  # a Memo holds anything
        out = uvarint(len(values) + 1) + self._pack(values)
        if len(values) > self.LONGEST_CACHED:
            return out
        return self.encoded_compact.keep(values, out)  # type: ignore[no-any-return]  # as above


#: The `struct` code and size of every fixed-width kind.
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
NUMBERS = {kind: Numbers(code, size) for kind, (code, size) in FIXED.items()}

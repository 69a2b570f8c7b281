"""Reads a malformed message field by field, to find the invalid one.

Compiled readers are fast because they do not track the current field. When one fails, this module
reads the same bytes again along the schema, and reports the first invalid field and its position.
It is also the readable counterpart of the compiler: tests compare the two.
"""

from __future__ import annotations

import struct

from kraftlog.errors import ProtocolError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.primitives import (
    FIXED,
    LARGEST_COMPACT_LENGTH,
    LONGEST_STRING,
    Malformed,
    string_as_java,
)
from kraftlog.wire.versioned_schema import VersionedSchema, item_of

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from kraftlog.types import Buffer
    from kraftlog.wire.schema import Field, Message


def read_slowly(
    cls: type[Message],
    version: int,
    buffer: Buffer,
    pos: int = 0,
    end: int | None = None,
) -> tuple[Message, int]:
    """Read the message at `pos`; return it and the position after it, or raise ProtocolError."""
    cursor = Cursor(VersionedSchema(cls, version), memoryview(buffer)[:end], pos)
    message = cursor.struct(cls, "")
    return message, cursor.pos


class Cursor:
    """A position in the bytes of a message, and the methods that read from there."""

    def __init__(self, schema: VersionedSchema, view: memoryview, pos: int) -> None:
        self.schema = schema
        self.view = view
        self.pos = pos

    def left(self) -> int:
        return len(self.view) - self.pos

    def fail(self, what: str, path: str) -> NoReturn:
        raise ProtocolError(what, field=path, position=self.pos)

    def take(self, size: int, path: str) -> memoryview:
        if size > self.left():
            self.fail(f"{size} bytes wanted, {self.left()} left", path)
        self.pos += size
        return self.view[self.pos - size : self.pos]

    def fixed(self, code: str, path: str) -> Any:
        layout = struct.Struct(">" + code)
        return layout.unpack(self.take(layout.size, path))[0]

    def uvarint(self, path: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.fixed("B", path)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    self.fail("varint beyond 32 bits", path)
                return value  # type: ignore[no-any-return]  # struct gives an int
        return self.fail("varint longer than five bytes", path)

    def struct(self, cls: type[Message], path: str) -> Message:
        message = object.__new__(cls)
        for field in cls._schema:
            setattr(message, field.name, field.default)
        for field in self.schema.plain(cls):
            where = f"{path}.{field.name}" if path else field.name
            setattr(message, field.name, self.field(field, where))
        if self.schema.flexible:
            self.tags(message, path)
        return message

    def field(self, field: Field, path: str) -> Any:
        if field.is_array:
            return self.array(field, path)
        return self.single(field, path)

    def length(self, field: Field, fixed_code: str, path: str) -> int:
        start = self.pos
        count: int
        if self.schema.compact(field):
            encoded = self.uvarint(path)
            count = -1 if encoded > LARGEST_COMPACT_LENGTH else encoded - 1
        else:
            count = self.fixed(fixed_code, path)
        if count < 0 and not field.nullable_in(self.schema.version):
            self.pos = start
            self.fail("null is not allowed", path)
        return count

    def array(self, field: Field, path: str) -> Any:
        count = self.length(field, "i", path)
        if count < 0:
            return None
        if count * self.schema.min_item_size(field) > self.left():
            self.fail(f"array of {count} items, {self.left()} bytes left", path)
        item = field if field.struct is not None else item_of(field)
        return tuple([self.item(item, f"{path}[{index}]") for index in range(count)])

    def item(self, field: Field, path: str) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, path)
        return self.single(field, path)

    def single(self, field: Field, path: str) -> Any:
        if field.kind in FIXED:
            return self.fixed(FIXED[field.kind][0], path)
        if field.struct is not None:
            is_nullable = field.nullable_in(self.schema.version)
            if is_nullable and self.fixed("b", path) <= field.null_struct:
                return None
            return self.struct(field.struct, path)
        count = self.length(field, "h" if field.kind == "string" else "i", path)
        if count < 0:
            return None
        if field.kind == "string" and count > LONGEST_STRING:
            self.fail(f"string of {count} bytes, at most {LONGEST_STRING} are allowed", path)
        start = self.pos
        raw = self.take(count, path)
        if field.kind == "string":
            try:
                return string_as_java(raw)
            except Malformed as error:
                self.pos = start
                self.fail(str(error), path)
        return raw if field.kind == "batches" else bytes(raw)

    def tags(self, message: Message, path: str) -> None:
        known = {field.tag: field for field in self.schema.tagged(type(message))}
        where = f"{path}.tags" if path else "tags"
        last = -1
        for _ in range(self.uvarint(where)):
            start = self.pos
            tag = self.uvarint(where)
            if tag <= last:
                self.pos = start
                self.fail("tags out of order", where)
            last = tag
            size = self.uvarint(where)
            if size > self.left():
                self.fail(f"tagged field of {size} bytes, {self.left()} left", where)
            if tag in known:
                self.known_tag(message, known[tag], size, path)
            else:
                self.take(size, where)

    def known_tag(self, message: Message, field: Field, size: int, path: str) -> None:
        where = f"{path}.{field.name}" if path else field.name
        stop = self.pos + size
        setattr(message, field.name, self.field(field, where))
        if self.pos != stop:
            self.fail(f"tagged field does not match its size of {size} bytes", where)

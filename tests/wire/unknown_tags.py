"""Encodes messages with tagged fields that no reader knows, as a later version of Kafka may."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kraftlog.wire.schema import Field, Message
from kraftlog.wire.versioned_schema import VersionedSchema
from kraftlog.wire.writer_generator import WriterGenerator

if TYPE_CHECKING:
    from collections.abc import Callable


def _unknown(tag: int) -> Field:
    field = Field("string", "", tag=tag)
    field.name = "__class__.__name__"  # every struct has this attribute, so writers find a value
    return field


#: Before, between and after the tags of Kafka and our own.
UNKNOWN = [_unknown(tag) for tag in (77, 5000, 20000, 2**32 - 1)]


class _SchemaWithUnknownTags(VersionedSchema):
    def tagged(self, cls: type[Message]) -> list[Field]:
        return [*super().tagged(cls), *UNKNOWN]


@cache
def _writer(cls: type[Message], version: int) -> Callable[[Any, Callable[[bytes], None]], None]:
    source = WriterGenerator(_SchemaWithUnknownTags(cls, version)).write()
    writer: Callable[[Any, Callable[[bytes], None]], None] = source.build("write", cls.__name__)
    return writer


def encode_with_unknown_tags(message: Message, version: int) -> bytes:
    """Encode a message with unknown tagged fields in each of its structs."""
    pieces: list[bytes] = []
    _writer(type(message), version)(message, pieces.append)
    return b"".join(pieces)

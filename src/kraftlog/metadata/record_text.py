"""Metadata records as text for operators, in the errors of records that cannot be replayed."""

from __future__ import annotations

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message

if TYPE_CHECKING:
    from typing import Any

#: A record may have thousands of fields, such as the replicas of a partition.
LONGEST = 1000
_UUID_SIZE = 16


def record_text(record: Message | None) -> str:
    """A record with its fields: `TopicRecord(name: demo, topic_id: nNdKd1CLSguetaRYtLbkWQ)`."""
    if record is None:
        return "no record"
    return f"{type(record).__name__}{_fields_text(record)}"[:LONGEST]


def value_text(value: Any) -> str:
    """A field or a key of a record: ids as Kafka's tools print them, null and true as in JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, bytes):
        return uuid_text(value) if len(value) == _UUID_SIZE else f"0x{value.hex()}"
    if isinstance(value, Message):
        return _fields_text(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value)


def _fields_text(message: Message) -> str:
    fields = [
        f"{field.name}: {value_text(getattr(message, field.name, None))}"
        for field in message._schema
    ]
    return f"({', '.join(fields)})"

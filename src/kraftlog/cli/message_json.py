"""Converts messages of the protocol and of logs to JSON, as Kafka's JSON converters do."""

from __future__ import annotations

import binascii

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.wire.schema import Field, Message


def message_json(message: Message, version: int) -> dict[str, Any]:
    """The fields of a message version as JSON; tagged fields only if they are not the default."""
    fields: dict[str, Any] = {}
    for field in type(message)._schema:
        value = getattr(message, field.name)
        if not field.in_version(version):
            continue
        if field.tag >= 0 and value == field.default:
            continue
        fields[_camel_case(field.name)] = _field_json(field, value, version)
    return fields


def _field_json(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_item_json(field, item, version) for item in value]
    return _item_json(field, value, version)


def _item_json(field: Field, value: Any, version: int) -> Any:
    if field.struct is not None:
        return message_json(value, version)
    if field.kind == "uuid":
        return uuid_text(value)
    if field.kind == "bytes":
        return binascii.b2a_base64(value, newline=False).decode()
    return value


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join([word.capitalize() for word in rest])

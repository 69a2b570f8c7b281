"""Random ids."""

from __future__ import annotations

import os

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.types import Uuid


def new_id() -> Uuid:
    """A random UUID (version 4), as Kafka generates them.

    Its text never starts with a dash, which would look like a flag.
    """
    while True:
        raw = bytearray(os.urandom(16))  # noqa: TID251 - this is the host
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if not uuid_text(bytes(raw)).startswith("-"):
            return bytes(raw)

"""`Record`: one message of a log, as applications see it."""

from __future__ import annotations

from kraftlog.value import Value

#: A header's name and its value. Names are UTF-8; bytes that are none survive as surrogates, so
#: that what was read can be written again unchanged.
Header = tuple[str, bytes | None]
HEADER_NAME_ERRORS = "surrogateescape"


class Record(Value):
    """`timestamp_ms` is -1 where the producer gave none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

"""`Record`: a record of a log, as applications see it."""

from __future__ import annotations

from kraftlog.value import Value

#: A header's name and value. Invalid UTF-8 in a name is decoded to surrogates, so that it can be
#: written back unchanged.
Header = tuple[str, bytes | None]
HEADER_NAME_ERRORS = "surrogateescape"


class Record(Value):
    """A record; `timestamp_ms` is -1 if the producer set none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

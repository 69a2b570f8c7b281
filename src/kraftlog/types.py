"""Types and constants that every layer uses."""

from __future__ import annotations

import binascii

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any, Protocol

    class Responder(Protocol):
        """Takes the response of a request: a connection's pending response, or a stand-in."""

        def respond(self, response: Any, /) -> None: ...

    class DelayedResponse(Responder, Protocol):
        """Keeps `response` until `waits`, the number of outcomes that it waits for, is 0."""

        waits: int
        response: Any

    class Cancellable(Protocol):
        """Work for a client; `cancel` is called when the client's connection closes."""

        def cancel(self) -> None: ...


Buffer = bytes | bytearray | memoryview

#: Sixteen bytes. Kafka prints a UUID as 22 characters of URL-safe base64.
Uuid = bytes
NULL_UUID = bytes(16)
#: The topic id of the metadata log, the same in every cluster.
METADATA_TOPIC_ID = bytes(15) + b"\x01"
METADATA_TOPIC = "__cluster_metadata"
#: The principal of clients that do not authenticate themselves.
ANONYMOUS = "User:ANONYMOUS"


def uuid_text(uuid: Uuid) -> str:
    """A UUID as Kafka's tools print it."""
    text = binascii.b2a_base64(uuid, newline=False).rstrip(b"=")
    return text.translate(_URL_SAFE).decode()


def uuid_from_text(text: str) -> Uuid:
    try:
        raw = binascii.a2b_base64(text.encode().translate(_URL_UNSAFE) + b"==", strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    if len(raw) != 16:
        raise ValueError(f"{text}: expected a UUID of 22 base64 characters")
    return raw


def text_as_java(raw: bytes) -> str:
    """Decode UTF-8 as Java does: invalid bytes become U+FFFD.

    Python's `replace` does the same, except that it decodes a lone surrogate to three U+FFFD, and
    Java to one.
    """
    if b"\xed" in raw:
        import re  # rarely needed

        raw = re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", "\ufffd".encode(), raw)
    return raw.decode("utf-8", "replace")


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_URL_UNSAFE = bytes.maketrans(b"-_", b"+/")


class ControlType:
    """Types of control records.

    ABORT and COMMIT values are a version and a message; the later messages have a `version` field.
    """

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class TopicPartition(Value):
    topic: str
    partition: int


class OffsetAndEpoch(Value):
    """A position in a log: an offset and the leader epoch of the record before it."""

    offset: int
    epoch: int


#: Later than any deadline.
NEVER_MS = 1 << 62


class Now(Value):
    """The current time: `monotonic_ms` for deadlines, `wall_ms` only for timestamps."""

    monotonic_ms: int
    wall_ms: int


#: Topic and partition.
LogName = tuple[str, int]

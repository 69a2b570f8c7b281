"""Small words that every layer uses."""

from __future__ import annotations

import binascii

from kraftlog.value import Value

Buffer = bytes | bytearray | memoryview

#: A UUID is its sixteen bytes. Kafka writes it as 22 letters of URL-safe base 64.
Uuid = bytes
NULL_UUID = bytes(16)
#: The topic id of the metadata log, the same in every cluster.
METADATA_TOPIC_ID = bytes(15) + b"\x01"
METADATA_TOPIC = "__cluster_metadata"


def uuid_text(uuid: Uuid) -> str:
    """How Kafka's tools print a UUID."""
    text = binascii.b2a_base64(uuid, newline=False).rstrip(b"=")
    return text.translate(_URL_SAFE).decode()


def uuid_from_text(text: str) -> Uuid:
    try:
        raw = binascii.a2b_base64(text.encode().translate(_URL_UNSAFE) + b"==", strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    if len(raw) != 16:
        raise ValueError(f"not a UUID of 22 base-64 letters: {text!r}")
    return raw


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_URL_UNSAFE = bytes.maketrans(b"-_", b"+/")


class TopicPartition(Value):
    topic: str
    partition: int


class OffsetAndEpoch(Value):
    """A point in a log: an offset and the epoch of the leader that wrote up to there."""

    offset: int
    epoch: int


class Now(Value):
    """What time it is: `monotonic_ms` for deadlines, `wall_ms` for timestamps only."""

    monotonic_ms: int
    wall_ms: int


#: A log is named by topic and partition.
LogName = tuple[str, int]

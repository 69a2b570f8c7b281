"""Kafka's small text files: offsets of all logs, leader epochs of one, and its topic id.

All but the file of the topic id, `partition.metadata`, have this format:

0                      version
2                      number of lines that follow
topic-a 0 1234         topic, partition, offset   (or: epoch, start offset)
topic-b 7 99

`partition.metadata` may have a third line, which Kafka ignores: the first leader epoch of a
partition that was added again under the number of a removed one.
"""

from __future__ import annotations

from sys import intern

from kraftlog.errors import CorruptLogError
from kraftlog.steps import result_of
from kraftlog.types import uuid_from_text, uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from kraftlog.types import LogName, Uuid

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
_VERSION = "0"
_FIRST_EPOCH = "kraftlog_first_leader_epoch"
#: How many lines a step encodes.
LINES_PER_STEP = 500


def encode_offsets(offsets: Mapping[LogName, int]) -> bytes:
    return result_of(encode_offsets_in_steps(offsets))


def encode_offsets_in_steps(offsets: Mapping[LogName, int]) -> Generator[None, None, bytes]:
    """Like `encode_offsets`, but in steps, as thousands of lines take milliseconds."""
    texts = (f"{topic} {index} {offsets[topic, index]}" for topic, index in sorted(offsets))
    return (yield from encode_lines_in_steps(texts))


def encode_lines_in_steps(texts: Iterable[str]) -> Generator[None, None, bytes]:
    lines = []
    for text in texts:
        lines.append(text)
        if not len(lines) % LINES_PER_STEP:
            yield
    return _encode(lines)


def decode_committed(data: bytes, path: str) -> dict[LogName, tuple[Uuid, int, int]]:
    """The lines of `kraftlog-committed-offsets`: topic id, first leader epoch and offset by log."""
    lines = {}
    for topic, index, offset, topic_id, first_epoch in _decode(data, path, 5):
        numbers = _number(first_epoch, path), _number(offset, path)
        lines[intern(topic), _number(index, path)] = (_uuid(topic_id, path), *numbers)
    return lines


def decode_offsets(data: bytes, path: str) -> dict[LogName, int]:
    offsets = {}
    for topic, partition, offset in _decode(data, path, 3):
        offsets[intern(topic), _number(partition, path)] = _number(offset, path)
    return offsets


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _encode([f"{epoch} {start}" for epoch, start in entries])


def decode_epochs(data: bytes, path: str) -> list[tuple[int, int]]:
    return [(_number(epoch, path), _number(start, path)) for epoch, start in _decode(data, path, 2)]


def encode_partition_metadata(topic_id: Uuid, first_leader_epoch: int = 0) -> bytes:
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    if first_leader_epoch:
        text += f"\n{_FIRST_EPOCH}: {first_leader_epoch}"
    return text.encode()


def decode_partition_metadata(data: bytes, path: str) -> Uuid:
    fields = _fields(data, path)
    try:
        if fields["version"] != _VERSION:
            raise ValueError(f"version {fields['version']}, only {_VERSION} is known")
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptLogError(f"{path} has no topic id: {error}") from error


def decode_first_leader_epoch(data: bytes, path: str) -> int:
    """The first leader epoch in a `partition.metadata`; 0 if it has none."""
    return _number(_fields(data, path).get(_FIRST_EPOCH, "0"), path)


def _fields(data: bytes, path: str) -> dict[str, str]:
    """The values in a `partition.metadata`, by name."""
    pairs = [line.partition(":") for line in _text(data, path).splitlines()]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _encode(lines: list[str]) -> bytes:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def _decode(data: bytes, path: str, width: int) -> Iterable[list[str]]:
    lines = _text(data, path).splitlines()
    if not lines:
        return []  # Kafka creates its files empty and fills them later
    if lines[0] != _VERSION:
        raise CorruptLogError(f"{path}: version {lines[0]}, not {_VERSION}")
    count = _number(lines[1], path) if len(lines) > 1 else -1
    entries = [line.split() for line in lines[2:] if line]
    if len(entries) != count or any(len(entry) != width for entry in entries):
        raise CorruptLogError(
            f"{path}: {len(entries)} lines; expected {count} lines of {width} words"
        )
    return entries


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptLogError(f"{path}: it is not text: {error}") from error


def _uuid(text: str, path: str) -> Uuid:
    try:
        return uuid_from_text(text)
    except ValueError:
        raise CorruptLogError(f"{path}: expected a topic id, found {text!r}") from None


def _number(text: str, path: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptLogError(f'{path}: expected a number, found "{text}"') from None

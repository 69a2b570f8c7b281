"""Checks arguments before a request is sent, and parses times; errors say what is expected."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from kraftlog.client.model import PartitionName

#: The largest count, id or partition in Kafka's protocol, and the largest offset or timestamp.
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


def text(argument: str, value: Any, example: str = "") -> str:
    if not isinstance(value, str):
        expected = f"a str such as {example!r}" if example else "a str"
        raise TypeError(f"{argument} {value!r}: expected {expected}")
    return value


def number(argument: str, value: Any, minimum: int = 0, maximum: int = MAX_INT32) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{argument} {value!r}: expected a whole number")
    if not minimum <= value <= maximum:
        raise ValueError(f"{argument} {value}: expected {minimum} to {maximum}")
    return value


def seconds(argument: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{argument} {value!r}: expected a number of seconds")
    if not value >= 0:
        raise ValueError(f"{argument} {value}: expected at least 0")
    return value


def time_of(value: str) -> datetime:
    """Parse a time in ISO 8601; it is in UTC unless it names a zone. Raises `ValueError`."""
    from datetime import UTC, datetime

    time = datetime.fromisoformat(value)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def time_ms(value: str) -> int:
    """Parse a time as `time_of` does, into milliseconds since 1970 like those of records."""
    return round(time_of(value).timestamp() * 1000)


def mapping(argument: str, value: Any, example: str) -> Mapping[Any, Any]:
    if not hasattr(value, "items"):
        raise TypeError(f"{argument} {value!r}: expected a dict such as {example}")
    return value  # type: ignore[no-any-return]  # duck typing


def texts(argument: str, value: Any) -> list[str]:
    return [text(argument, each) for each in _collection(argument, value, '["a-topic"]')]


def numbers(argument: str, value: Any) -> list[int]:
    return [number(argument, each) for each in _collection(argument, value, "[0, 1]")]


def partition_names(argument: str, value: Any) -> list[PartitionName]:
    names = _collection(argument, value, '[("a-topic", 0)]')
    return [_partition_name(argument, each) for each in names]


def partition_offsets(argument: str, value: Any, minimum: int = 0) -> dict[PartitionName, int]:
    offsets = mapping(argument, value, '{("a-topic", 0): 42}')
    checked = {_partition_name(argument, name): offset for name, offset in offsets.items()}
    return {
        (topic, index): number(f"{argument} of {topic}-{index}", offset, minimum, MAX_INT64)
        for (topic, index), offset in checked.items()
    }


def _collection(argument: str, value: Any, example: str) -> Iterable[Any]:
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"{argument} {value!r}: expected a collection such as {example}")
    return value  # type: ignore[no-any-return]  # checked above


def _partition_name(argument: str, value: Any) -> PartitionName:
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f'{argument}: {value!r}: expected a topic and a partition: ("a-topic", 0)')
    return text("topic", value[0]), number("partition", value[1])

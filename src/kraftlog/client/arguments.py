"""Checks arguments before a request is sent.

Errors name the argument and what is expected, instead of failing deep inside.
"""

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


def text(what: str, given: Any, example: str = "") -> str:
    if not isinstance(given, str):
        wanted = f"a text such as {example!r}" if example else "a text"
        raise TypeError(f"{what} {given!r}: expected {wanted}")
    return given


def number(what: str, given: Any, least: int = 0, most: int = MAX_INT32) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{what} {given!r}: expected a whole number")
    if not least <= given <= most:
        raise ValueError(f"{what} {given}: expected {least} to {most}")
    return given


def seconds(what: str, given: Any) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise TypeError(f"{what} {given!r}: expected a number of seconds")
    if not given >= 0:
        raise ValueError(f"{what} {given}: expected at least 0")
    return given


def time_of(given: str) -> datetime:
    """Parse a time in ISO 8601; it is in UTC unless it names a zone. Raises `ValueError`."""
    from datetime import UTC, datetime

    when = datetime.fromisoformat(given)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def time_ms(given: str) -> int:
    """The same in milliseconds since 1970, as timestamps of records."""
    return round(time_of(given).timestamp() * 1000)


def mapping(what: str, given: Any, example: str) -> Mapping[Any, Any]:
    if not hasattr(given, "items"):
        raise TypeError(f"{what} {given!r}: expected a dict such as {example}")
    return given  # type: ignore[no-any-return]  # duck typing


def texts(what: str, given: Any) -> list[str]:
    return [text(what, each) for each in _collection(what, given, '["a-topic"]')]


def numbers(what: str, given: Any) -> list[int]:
    return [number(what, each) for each in _collection(what, given, "[0, 1]")]


def partition_names(what: str, given: Any) -> list[PartitionName]:
    names = _collection(what, given, '[("a-topic", 0)]')
    return [_partition_name(what, each) for each in names]


def partition_offsets(what: str, given: Any, least: int = 0) -> dict[PartitionName, int]:
    offsets = mapping(what, given, '{("a-topic", 0): 42}')
    return {
        _partition_name(what, name): number(f"{what} of {name!r}", offset, least, MAX_INT64)
        for name, offset in offsets.items()
    }


def _collection(what: str, given: Any, example: str) -> Iterable[Any]:
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise TypeError(f"{what} {given!r}: expected several, such as {example}")
    return given  # type: ignore[no-any-return]  # checked above


def _partition_name(what: str, given: Any) -> PartitionName:
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f'{what}: {given!r}: expected a topic and a partition: ("a-topic", 0)')
    return text("topic", given[0]), number("partition", given[1])

"""Reads the JSON files of commands; an error names the key and what is expected."""

from __future__ import annotations

import json

from kraftlog.client.arguments import MAX_INT32
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class Entries:
    """The objects of a list in a JSON file; `form` describes the whole file for errors."""

    def __init__(self, text: str, key: str, form: str) -> None:
        self._form = form
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"expected JSON: {error}") from None
        self.all = self.value(data, key)
        if not isinstance(self.all, list) or not self.all:
            raise ValueError(f"expected {form}, with at least one entry")

    def value(self, entry: Any, key: str) -> Any:
        if not hasattr(entry, "get"):
            raise ValueError(f"expected {self._form}")
        if key not in entry:
            raise ValueError(f"expected {self._form}; '{key}' is missing")
        return entry[key]

    def topic(self, entry: Any) -> str:
        topic = self.value(entry, "topic")
        if topic == "" or str(topic) != topic:
            raise ValueError(f"topic {json.dumps(topic)}: expected a name")
        return str(topic)

    def number(self, entry: Any, key: str, minimum: int = 0, maximum: int = MAX_INT32) -> int:
        return checked_number(key, self.value(entry, key), minimum, maximum)

    def numbers(self, entry: Any, key: str) -> tuple[int, ...]:
        values = self.value(entry, key)
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key} {json.dumps(values)}: expected a list such as [1, 2]")
        return tuple([checked_number(key, value) for value in values])


def checked_number(key: str, value: Any, minimum: int = 0, maximum: int = MAX_INT32) -> int:
    """A number of a JSON file in this range; JSON's true and 1.5 are none."""
    if type(value) is not int or not minimum <= value <= maximum:
        expected = f"a whole number from {minimum} to {maximum}"
        raise ValueError(f"{key} {json.dumps(value)}: expected {expected}")
    return value

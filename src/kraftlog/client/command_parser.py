"""The argument parser of commands and pipelines, and the types of its values.

An invalid command line is one line on standard error, and exit code 2.
"""

from __future__ import annotations

from argparse import ArgumentError, ArgumentParser, ArgumentTypeError

from kraftlog.client.arguments import MAX_INT32
from kraftlog.types import uuid_from_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Callable
    from typing import Any, NoReturn

INVALID = 2


class CommandParser(ArgumentParser):
    """A parser whose errors are one line each, without the usage and without Python's types."""

    def error(self, message: str) -> NoReturn:
        text = " ".join(message.removeprefix("argument ").split())
        option, _, reason = text.partition(": ")
        if ": expected " in reason:  # the name and the value: --port 70000: expected …
            text = f"{option.rpartition('/')[2]} {reason}"
        self.exit(INVALID, f"{self.prog}: {text}; see --help\n")

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            expected = ", ".join(map(str, action.choices))
            raise ArgumentError(action, f"{value}: expected one of {expected}")


def whole_number(minimum: int = 0, maximum: int = MAX_INT32) -> Callable[[str], int]:
    """The type of an option whose value is a whole number in this range."""

    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) < 20:
            number = int(text)
            if minimum <= number <= maximum:
                return number
        raise ArgumentTypeError(f"{text}: expected a whole number from {minimum} to {maximum}")

    return parse


def servers(text: str) -> str:
    """The type of an option that lists bootstrap servers."""
    from kraftlog.client.model import parse_servers

    try:
        parse_servers(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def uuid(text: str) -> bytes:
    """The type of an option whose value is a topic id or a directory id."""
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def not_empty(text: str) -> str:
    """The type of an option whose value must not be the empty string."""
    if not text.strip():
        raise ArgumentTypeError("it is empty")
    return text

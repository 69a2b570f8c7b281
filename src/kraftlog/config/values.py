"""Parses and validates a value of a key.

Every error has the key, the value (unless it is a password) and what is accepted.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.config.keys import Key

_BITS = {"short": 16, "int": 32, "long": 64}


def parse_value(key: Key, text: str) -> Any:
    """Parse a value; raises ConfigError."""
    value = _parse_as(key.type, text)
    if value is None or not _is_valid(key, value):
        shown = "(hidden)" if key.sensitive else text
        raise ConfigError(f"{key.name}={shown}: expected {expected(key)}")
    return value


def value_error(key: Key, text: str) -> str | None:
    """The error in a value, or None."""
    try:
        parse_value(key, text)
    except ConfigError as error:
        return str(error)
    return None


def default_of(key: Key) -> Any:
    """The parsed default; None if there is none."""
    return None if key.default is None else _parse_as(key.type, key.default)


def to_text(value: Any) -> str | None:
    """Format a value as Kafka's tools do, doubles as Java does."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return _double_text(value) if isinstance(value, float) else str(value)


def _double_text(value: float) -> str:
    """Java's text of a double: from 0.001 to below 10 million without an exponent."""
    if not value or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


# Types -------------------------------------------------------------------------------------------


def _parse_as(kind: str, text: str) -> Any:
    """Parse a text of a type; None if invalid."""
    if kind in _BITS:
        return _parse_integer(text.strip(), _BITS[kind])
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.strip().lower())
    if kind == "double":
        return _parse_double(text.strip())
    if kind == "list":
        return split_list(text)
    return text if kind == "password" else text.strip()


def split_list(text: str) -> list[str]:
    """Split at commas; blanks around an item and duplicates are dropped."""
    if not text.strip():
        return []
    return list(dict.fromkeys([item.strip() for item in text.split(",")]))


def _parse_integer(text: str, bits: int) -> int | None:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isdecimal() and digits.isascii() and len(digits) < 40):
        return None
    number = int(text)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def _parse_double(text: str) -> float | None:
    if not text or not set(text) <= _DOUBLE_CHARACTERS:
        return None
    try:
        return float(text)
    except ValueError:
        return None


_DOUBLE_CHARACTERS = frozenset("0123456789+-.eE")


# Valid values ------------------------------------------------------------------------------------


def _is_valid(key: Key, value: Any) -> bool:
    """Whether a value is valid by `key.valid`, in the notation that `keys` describes."""
    valid = key.valid
    if isinstance(value, list) and "" in value:
        return False
    if valid == "-":
        return True
    if valid[0] == "<":
        return bool(_FORMATS[valid][0](value))
    if ".." in valid:
        span, _, other = valid.partition("|")
        low, high = span.split("..")
        return value == _number(other) or _within(value, _number(low), _number(high))
    items = value if isinstance(value, list) else [value]
    if valid[0] == "+":
        return bool(value) and _are_among(items, valid[1:])
    if valid[0] == "~":
        return _are_among([item.lower() for item in items], valid[1:])
    return _are_among(items, valid)


def _number(text: str) -> float | None:
    return float(text) if "." in text else int(text) if text else None


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _are_among(items: list[str], choices: str) -> bool:
    return not choices or set(items) <= set(choices.split("|"))


def _is_throttled_list(items: list[str]) -> bool:
    pairs = [item.split(":") for item in items]
    are_pairs = all(len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs)
    return items == ["*"] or are_pairs


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii()


def _is_offset_reset(text: str) -> bool:
    import re

    if text in {"latest", "earliest"}:
        return True
    return re.fullmatch(_DURATION, text) is not None and text[-1] not in ":PT"


_DURATION = (
    r"(?i:by_duration):\+?P(?:\+?\d+D)?"
    r"(?:T(?:\+?\d+H)?(?:\+?\d+M)?(?:\+?\d+(?:\.\d{0,9})?S)?)?"
)


def _is_client_match(items: list[str]) -> bool:
    import re

    for item in items:
        name, equals, pattern = item.partition("=")
        if not equals or name.strip() not in _CLIENT_FIELDS:
            return False
        try:
            re.compile(pattern.strip())
        except re.error:
            return False
    return True


_CLIENT_FIELDS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _are_voters(items: list[str]) -> bool:
    from kraftlog.config.endpoints import parse_static_voter

    return all(parse_static_voter(item) is not None for item in items)


def _are_servers(items: list[str]) -> bool:
    from kraftlog.config.endpoints import parse_server

    return all(parse_server(item) is not None for item in items)


#: Special formats of `valid`: the check of a value, and what an error says is expected.
_FORMATS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "<throttled-replicas>": (
        _is_throttled_list,
        "* for all, or a list of partition:broker, as in 0:1,1:2",
    ),
    "<offset-reset>": (_is_offset_reset, "latest, earliest, or by_duration:PnDTnHnMn.nS"),
    "<client-match>": (
        _is_client_match,
        f"a list of name=pattern with {', '.join(_CLIENT_FIELDS)}",
    ),
    "<voters>": (_are_voters, "a list of id@host:port"),
    "<servers>": (_are_servers, "a list of host:port"),
}


# Descriptions ------------------------------------------------------------------------------------


def expected(key: Key) -> str:
    """A description of the accepted values of a key."""
    valid = key.valid
    if valid[0] == "<":
        return _FORMATS[valid][1]
    if key.type == "boolean":
        return "true or false"
    if key.type in _BITS or key.type == "double":
        return _expected_number(key)
    choices = ", ".join(valid.lstrip("+~").split("|")) if valid != "-" else ""
    if key.type == "list":
        what = f"a list of {choices}" if choices else "a list"
        return f"{what}, not empty" if valid[0] == "+" else what
    if choices:
        return f"one of {choices}"
    return "a non-empty string" if valid[0] == "+" else "a string"


def _expected_number(key: Key) -> str:
    what = "a number" if key.type == "double" else "a whole number"
    span, _, other = key.valid.partition("|")
    low, high = span.split("..") if ".." in span else ("", "")
    if key.type in {"short", "int"}:
        most = 1 << _BITS[key.type] - 1
        low, high = low or str(-most), high or str(most - 1)
    bounds = f" from {low} to {high}" if high else f" of at least {low}" if low else ""
    return f"{what}{bounds}" + (f", or {other}" if other else "")

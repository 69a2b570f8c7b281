"""Parses Java's `.properties` format, and `--override` arguments."""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPACES = " \t\f"
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Parse keys and values; the last one of duplicate keys counts."""
    return dict([_pair(line) for line in _logical_lines(text)])


def parse_overrides(words: Iterable[str]) -> dict[str, str]:
    """Parse `--override key=value`."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override {word}: expected key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def _logical_lines(text: str) -> Iterable[str]:
    """Logical lines: continuation lines joined, without comments and empty lines."""
    joined = ""
    is_continued = False
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = line.lstrip(_SPACES)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if is_continued else line
        if not is_continued:
            yield joined
            joined = ""
    if joined:
        yield joined


def _pair(line: str) -> tuple[str, str]:
    """Split at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACES:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACES)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_SPACES)
    return _unescaped(line[:end]), _unescaped(rest)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        character = next(characters, "")
        if character == "u":
            digits = "".join([next(characters, "") for _ in range(4)])
            if len(digits) < 4 or not set(digits) <= _HEX:
                raise ConfigError(f"\\u{digits}: expected four hexadecimal digits")
            out.append(chr(int(digits, 16)))
        else:
            out.append(_ESCAPES.get(character, character))
    return "".join(out)

"""Reads `sasl.jaas.config`: the class of a login module, a flag, options as key="value"."""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The login module of each mechanism, without its package.
LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_QUOTES = "\"'"


def parse_jaas(text: str, key: str = "sasl.jaas.config") -> tuple[str, dict[str, str]]:
    """The login module's class without its package, and its options.

    An error names the key, and never quotes the text, as it has passwords.
    """
    try:
        return _parse(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _parse(text: str) -> tuple[str, dict[str, str]]:
    words = list(_words(text))
    if len(words) < 3 or words[-1] != ";" or words[1].lower() not in _FLAGS:
        raise ValueError('expected CLASS required key="value" ... ;')
    options = words[2:-1]
    if len(options) % 3 or any(equals != "=" for equals in options[1::3]):
        raise ValueError('expected options as key="value", and a semicolon at the end')
    return words[0].rpartition(".")[2], dict(zip(options[::3], options[2::3], strict=True))


def _words(text: str) -> Iterator[str]:
    """Words, quoted texts without their quotes, and the signs `=` and `;`."""
    position = 0
    while position < len(text):
        sign = text[position]
        if sign.isspace():
            position += 1
        elif sign in "=;":
            yield sign
            position += 1
        elif sign in _QUOTES:
            word, position = _quoted(text, position)
            yield word
        else:
            start = position
            while position < len(text) and not (text[position].isspace() or text[position] in "=;"):
                position += 1
            yield text[start:position]


def _quoted(text: str, start: int) -> tuple[str, int]:
    """A quoted text, in which a backslash precedes any character, and the position after it."""
    word, position = "", start + 1
    while position < len(text):
        sign = text[position]
        if sign == text[start]:
            return word, position + 1
        if sign == "\\" and position + 1 < len(text):
            position += 1
        word += text[position]
        position += 1
    raise ValueError("a quotation mark has no end")

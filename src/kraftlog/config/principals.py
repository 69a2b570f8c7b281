"""`ssl.principal.mapping.rules`: the principal of a client that shows a certificate."""

from __future__ import annotations

import re

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY = "ssl.principal.mapping.rules"
#: `DEFAULT`, or `RULE:pattern/replacement/` with `L` or `U`; a slash in a pattern has a backslash.
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


def principal_mapper(text: str) -> Callable[[str], str | None]:
    """A function from a distinguished name to a principal; None if no rule matches the name."""
    rules = _parse(text)

    def principal_of(name: str) -> str | None:
        for rule in rules:
            mapped = name if rule is None else rule(name)
            if mapped is not None:
                return f"User:{mapped}"
        return None

    return principal_of


def _parse(text: str) -> list[Callable[[str], str | None] | None]:
    """The rules in order; None stands for DEFAULT, which keeps the name."""
    rules: list[Callable[[str], str | None] | None] = []
    position = 0
    text = text.strip() or "DEFAULT"
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or match.end() == position:
            raise ConfigError(
                f"{_KEY}={text}: expected DEFAULT or RULE:pattern/replacement/[LU], separated by "
                f"commas, at {text[position : position + 20]!r}"
            )
        rules.append(None if match[1] else _rule(text, match[2], match[3], match[4]))
        position = match.end()
    return rules


def _rule(text: str, pattern: str, replacement: str, case: str) -> Callable[[str], str | None]:
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
    except re.error as error:
        raise ConfigError(f"{_KEY}={text}: {pattern!r} is not a pattern: {error}") from None
    for match in _REFERENCE.finditer(replacement):
        if match[2] and int(match[2]) > compiled.groups:
            raise ConfigError(f"{_KEY}={text}: {pattern!r} has no group {match[2]}")

    def apply(name: str) -> str | None:
        found = compiled.fullmatch(name)
        if found is None:
            return None
        mapped = _REFERENCE.sub(
            lambda match: match[1] or found[int(match[2])] or "",  # Java's `$1` and `\/`
            replacement,
        )
        return {"L": mapped.lower(), "U": mapped.upper()}.get(case, mapped)

    return apply

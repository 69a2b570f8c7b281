"""`string_hash`: the hash of Java's strings, by which Kafka spreads groups and orders members."""

from __future__ import annotations

from operator import mul

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MASK = 0xFFFFFFFF
#: Powers of 31, descending; a longer string is hashed with a loop.
_LONGEST = 64
_POWERS = tuple([pow(31, exponent, 1 << 32) for exponent in range(_LONGEST - 1, -1, -1)])


def string_hash(text: str) -> int:
    """String.hashCode, as an unsigned number."""
    units: Sequence[int]
    if text.isascii():
        units = text.encode()
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        units = [high << 8 | low for high, low in zip(raw[::2], raw[1::2], strict=True)]
    if len(units) <= _LONGEST:
        terms: int = sum(map(mul, units, _POWERS[_LONGEST - len(units) :]))
        return terms & _MASK
    result = 0
    for unit in units:
        result = result * 31 + unit & _MASK
    return result

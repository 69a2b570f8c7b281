"""What a node reads of a certificate in DER: its subject, and the time of its validity.

`ssl` decodes only certificates that it has verified, and drops the types of the subject's parts,
which Java's form of the name depends on.
"""

from __future__ import annotations

import time
from calendar import timegm

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTEXT_0, _UTC_TIME = 0xA0, 0x17
#: Types of strings, and their encodings.
_STRINGS = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
#: Parts of a name that RFC 2253 has keywords for.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = ',=+<>#;"\\'


class Certificate(Value):
    """The subject as Java's `X500Principal.getName`, and the validity in Unix time."""

    subject: str
    not_before_s: int
    not_after_s: int


def parse_certificate(der: bytes) -> Certificate:
    """Read a certificate; raises ValueError if it is malformed."""
    try:
        ((_, certificate, _),) = _items(der)
        to_be_signed = next(_items(certificate))[1]
        fields = [item for item in _items(to_be_signed) if item[0] != _CONTEXT_0]
        validity, subject = fields[3], fields[4]
        not_before, not_after = [_time(tag, value) for tag, value, _ in _items(validity[1])]
        return Certificate(_name(subject[1]), not_before, not_after)
    except (IndexError, StopIteration) as error:
        raise ValueError("a malformed certificate") from error


def _items(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The tag, the content and the encoding of each value."""
    position = 0
    while position < len(data):
        tag, size, start = data[position], data[position + 1], position + 2
        if size >= 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[start : start + count], "big")
            start += count
        if start + size > len(data):
            raise IndexError
        yield tag, data[start : start + size], data[position : start + size]
        position = start + size


def _time(tag: int, value: bytes) -> int:
    text = value.decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if text[:2] < "50" else "19") + text
    return timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))


def _name(data: bytes) -> str:
    """A distinguished name, the most specific part first."""
    parts = [
        "+".join([_part(pair) for _, pair, _ in _items(attributes)])
        for _, attributes, _ in _items(data)
    ]
    return ",".join(reversed(parts))


def _part(pair: bytes) -> str:
    (_, identifier, _), (tag, value, encoded) = _items(pair)
    dotted = _identifier(identifier)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or dotted}=#{encoded.hex()}"
    text = value.decode(_STRINGS[tag], "replace")
    escaped = "".join([f"\\{each}" if each in _ESCAPED else each for each in text])
    escaped = escaped.replace("\0", "\\00")
    inner = escaped.strip(" ")
    before = len(escaped) - len(escaped.lstrip(" "))
    after = len(escaped) - before - len(inner)
    return f"{keyword}=" + "\\ " * before + inner + "\\ " * after


def _identifier(data: bytes) -> str:
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))

"""Zigzag varints, the encoding of lengths and deltas in records."""

from __future__ import annotations

_LONG = 0xFFFF_FFFF_FFFF_FFFF

#: The encodings of -64 to 63 by their zigzag number, which cover nearly all lengths and deltas.
_ONE_BYTE = [bytes([number]) for number in range(128)]
NULL_LENGTH = _ONE_BYTE[1]


def encode_varint(value: int) -> bytes:
    """Encode a signed number of at most 64 bits."""
    number = ((value << 1) ^ (value >> 63)) & _LONG
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def decode_varint(buffer: bytes, position: int, *, max_bits: int) -> tuple[int, int]:
    """Decode the number at `position`; return it and the position after it.

    Raises IndexError at the end of the buffer, and ValueError beyond `max_bits`.
    """
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= max_bits:
            raise ValueError(f"a number of more than {max_bits} bits")
    if number >> max_bits:
        raise ValueError(f"a number of more than {max_bits} bits")
    return (number >> 1) ^ -(number & 1), position

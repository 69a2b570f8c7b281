"""The header's fields, the CRC, and varints."""

from __future__ import annotations

import importlib.machinery
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import CorruptBatchError
from kraftlog.records import crc
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import (
    HEADER_SIZE,
    NO_SEQUENCE,
    BatchHeader,
    read_checked_header,
    read_header,
    stamp,
)
from kraftlog.records.reader import read_records
from kraftlog.records.varint import decode_varint, encode_varint


def three_record_batch(**fields: Any) -> bytes:
    builder = BatchBuilder(**fields)
    for number in range(3):
        builder.append(1000 + number, None, b"v")
    return builder.build()


def test_stamping_does_not_change_the_crc() -> None:
    buffer = bytearray(5) + three_record_batch()
    stamp(buffer, 5, 2**40, 12)
    header = read_checked_header(buffer, 5)
    assert (header.base_offset, header.leader_epoch) == (2**40, 12)
    assert (header.last_offset, header.next_offset) == (2**40 + 2, 2**40 + 3)
    assert header.size == len(buffer) - 5
    assert [record.offset for record in read_records(buffer, 5)] == [2**40 + n for n in range(3)]


@pytest.mark.parametrize(
    ("base", "last"),
    [(0, 2), (2**31 - 3, 2**31 - 1), (2**31 - 2, 0), (2**31 - 1, 1), (NO_SEQUENCE, NO_SEQUENCE)],
)
def test_sequences_wrap_to_0(base: int, last: int) -> None:
    header = read_header(three_record_batch(producer_id=1, producer_epoch=0, base_sequence=base))
    assert header.last_sequence == last


def test_attributes_are_decoded() -> None:
    bits = {0x08: "has_log_append_time", 0x10: "is_transactional", 0x20: "is_control"}
    for attributes in range(0x40):
        header = BatchHeader(0, 49, 0, 2, 0, attributes, 0, 0, 0, -1, -1, -1, 1)
        assert header.codec == attributes & 7
        for bit, name in bits.items():
            assert getattr(header, name) is bool(attributes & bit)


@pytest.mark.parametrize("size", [0, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 5])
def test_an_incomplete_batch_is_refused(size: int) -> None:
    with pytest.raises(CorruptBatchError, match=str(size)):
        read_checked_header(three_record_batch()[:size])


def test_another_record_format_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="record format 3"):
        read_checked_header(three_record_batch()[:16] + b"\3" + three_record_batch()[17:])


def test_crc32c_of_any_buffer_has_the_published_value() -> None:
    """CRC catalogues list the checksum of these nine digits with the polynomial."""
    for buffer_type in (bytes, bytearray, memoryview):
        assert crc.crc32c(buffer_type(b"123456789")) == 0xE3069283
    assert crc.crc32c(memoryview(b"x123456789y")[1:-1]) == 0xE3069283


def test_without_the_extension_module_the_package_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.machinery, "EXTENSION_SUFFIXES", [".elsewhere"])
    assert crc._load()(b"123456789") == 0xE3069283


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(number: int) -> None:
    encoded = encode_varint(number)
    assert decode_varint(b"\xff" + encoded + b"\xff", 1, max_bits=64) == (number, 1 + len(encoded))
    fits = -(2**31) <= number < 2**31
    if fits:
        assert decode_varint(encoded, 0, max_bits=32)[0] == number
    else:
        with pytest.raises(ValueError, match="more than 32 bits"):
            decode_varint(encoded, 0, max_bits=32)


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (-1, "01"), (63, "7e"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f")],
)
def test_varints_have_zigzag_bytes(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded

"""The fast check `plain_fields` accepts no batch that `check_produced` refuses."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import CorruptBatchError
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraftlog.records.header import HEADER, BatchHeader, read_header
from kraftlog.records.plain_batch import plain_fields
from kraftlog.records.validate import ProduceRules, check_produced
from tests.records.produce_cases import NOW_MS, cases, with_crc

RULES = (
    ProduceRules(),
    ProduceRules(allows_zstd=False),
    ProduceRules(max_batch_size=150),
    ProduceRules(segment_size=150),
    ProduceRules(after_max_ms=10),
)
FIELDS = HEADER.unpack(bytes(HEADER.size))
IDEMPOTENT = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
#: The index of the checksum in FIELDS. No test changes it, as `with_crc` computes it again.
CRC = 4


def produced_batch(codec: int = NONE, count: int = 2, **fields: Any) -> bytes:
    builder = BatchBuilder(codec=codec, **fields)
    for number in range(count):
        builder.append(NOW_MS + number, b"key", b"value %d" % number)
    return builder.build()


def is_accepted(batch: bytes, rules: ProduceRules) -> bool:
    """Whether `check_produced` accepts a batch."""
    try:
        check_produced(batch, rules, NOW_MS)
    except CorruptBatchError:
        return False
    return True


def accepted_fields(batch: bytes, rules: ProduceRules) -> Any:
    """The result of `plain_fields` for a batch in the middle of a buffer: its fields, or None."""
    view = memoryview(bytearray(b"abc" + batch + b"def"))
    return plain_fields(view, 3, len(batch), rules, NOW_MS)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    "producer", [{}, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 3}]
)
def test_ordinary_batches_are_accepted_as_by_check_produced(
    rules: ProduceRules, codec: int, producer: dict[str, int]
) -> None:
    for count in (1, 2, 50):
        batch = produced_batch(codec, count, **producer)
        fields = accepted_fields(batch, rules)
        assert (fields is not None) == is_accepted(batch, rules)
        if fields is not None:
            assert BatchHeader(*fields) == read_header(batch)


numbers = st.sampled_from([-(1 << 31), -2, -1, 0, 1, 2, 3, 100, NOW_MS, 1 << 40])


@pytest.mark.parametrize("index", [index for index in range(len(FIELDS)) if index != CRC])
@given(
    number=numbers,
    codec=st.sampled_from([NONE, GZIP, ZSTD]),
    rules=st.sampled_from(RULES),
    count=st.sampled_from([1, 3]),
)
def test_a_batch_with_a_changed_field_is_not_accepted_if_it_is_invalid(
    index: int, number: int, codec: int, rules: ProduceRules, count: int
) -> None:
    batch = produced_batch(codec, count, **IDEMPOTENT)
    fields = list(HEADER.unpack_from(batch))
    fields[index] = number
    try:
        changed = with_crc(HEADER.pack(*fields) + batch[HEADER.size :])
    except struct.error:
        return  # the number does not fit into this field
    if accepted_fields(changed, rules) is not None:
        assert is_accepted(changed, rules)


@given(data=st.data(), codec=st.sampled_from([NONE, SNAPPY, LZ4]))
def test_a_batch_with_changed_bytes_is_not_accepted_if_it_is_invalid(
    data: st.DataObject, codec: int
) -> None:
    batch = bytearray(produced_batch(codec))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(batch)))
    raw = with_crc(bytes(batch))[:size] if size > HEADER.size else bytes(batch[:size])
    for rules in RULES:
        if accepted_fields(raw, rules) is not None:
            assert is_accepted(raw, rules)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_cases_that_check_produced_refuses_are_not_accepted(case: Any) -> None:
    if accepted_fields(case.records, RULES[0]) is not None:
        assert is_accepted(case.records, RULES[0])

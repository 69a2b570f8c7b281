"""Walking over headers visits every batch once, and stops at an invalid header."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import CorruptBatchError
from kraftlog.records.builder import BatchBuilder, build_empty_batch
from kraftlog.records.header import HEADER, BatchHeader, check_header
from kraftlog.records.walk import walk, walk_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Walk = Callable[[bytes], Iterator[tuple[int, tuple[int, ...]]]]


def walk_in_file(buffer: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """`walk_file`, with a reader that returns no more than a header."""

    def pread(size: int, offset: int) -> bytes:
        assert size == 61
        return buffer[offset : offset + size]

    return walk_file(pread, 0, len(buffer))


both_walks = pytest.mark.parametrize("walk_batches", [walk, walk_in_file])


def make_batch(base_offset: int, count: int = 3) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=4)
    for number in range(count):
        builder.append(1000 + number, None, b"value")
    return builder.build()


@both_walks
def test_every_batch_is_visited(walk_batches: Walk) -> None:
    batches = [make_batch(10), build_empty_batch(13, 19), make_batch(25, 1)]
    visited = list(walk_batches(b"".join(batches)))
    assert [position for position, _ in visited] == [0, len(batches[0]), len(batches[0]) + 61]
    headers = [BatchHeader(*fields) for _, fields in visited]
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers] == [
        (10, 12, 3),
        (13, 19, 0),
        (25, 25, 1),
    ]


@both_walks
def test_an_empty_buffer_has_no_batches(walk_batches: Walk) -> None:
    assert list(walk_batches(b"")) == []


@both_walks
@pytest.mark.parametrize(
    ("position", "kind", "number", "message"),
    [
        (0, ">q", -1, "offsets from -1"),
        (0, ">q", 2**63 - 2, "offsets from"),
        (8, ">i", 48, "length of 48"),
        (8, ">i", -1, "length of -1"),
        (16, ">b", 1, "record format 1"),
        (23, ">i", -1, "offsets from 13 to 12"),
        (23, ">i", 1, "3 records in 2 offsets"),
        (57, ">i", -1, "-1 records"),
        (57, ">i", 4, "4 records in 3 offsets"),
        (0, ">q", 12, "base offset 12 where 13 is next"),
        (8, ">i", 2**31 - 1, "truncated"),
    ],
)
def test_an_invalid_header_stops_the_walk(
    walk_batches: Walk, position: int, kind: str, number: int, message: str
) -> None:
    good = make_batch(10)
    bad = bytearray(make_batch(13))
    struct.pack_into(kind, bad, position, number)
    steps = walk_batches(good + bad + make_batch(16))
    assert next(steps)[0] == 0
    with pytest.raises(CorruptBatchError, match=message) as caught:
        next(steps)
    assert caught.value.position == len(good)


@both_walks
@pytest.mark.parametrize("remaining", [1, 60, 61, 80])
def test_a_truncated_batch_stops_the_walk(walk_batches: Walk, remaining: int) -> None:
    good = make_batch(10)
    steps = walk_batches(good + make_batch(13)[:remaining])
    next(steps)
    with pytest.raises(CorruptBatchError, match=f"truncated after {remaining} bytes") as caught:
        next(steps)
    assert caught.value.position == len(good)
    assert len(list(walk(good + make_batch(13)[:remaining], may_end_in_batch=True))) == 1


def test_part_of_a_buffer_can_be_walked() -> None:
    first, second, third = make_batch(0), make_batch(3), make_batch(6)
    buffer = memoryview(first + second + third)
    inner = walk(buffer, len(first), len(first) + len(second))
    assert [(position, fields[0]) for position, fields in inner] == [(len(first), 3)]


numbers = st.sampled_from([0, 1, 2, 3, 48, 49, 2**31 - 1, -1, -(2**31)])
offsets = st.sampled_from([0, 1, 2**63 - 1, 2**63 - 2**31, -1])


@given(offsets, numbers, st.integers(0, 3), numbers, numbers)
def test_walk_and_check_header_have_the_same_rules(
    base_offset: int, length: int, magic: int, last_delta: int, count: int
) -> None:
    fields = (base_offset, length, 0, magic, 0, 0, last_delta, 0, 0, 0, 0, 0, count)
    try:
        check_header(BatchHeader(*fields))
    except CorruptBatchError as error:
        expected = str(error)
    else:
        expected = f"a batch truncated after {61 + 40} bytes at byte 0" if length > 89 else ""
    buffer = HEADER.pack(*fields) + bytes(40)
    for steps in (walk(buffer), walk_in_file(buffer)):
        assert error_of(steps) == expected


def error_of(steps: Iterator[object]) -> str:
    """The error of the first step, or an empty string."""
    try:
        next(steps)
    except CorruptBatchError as error:
        return str(error)
    return ""


def test_a_file_that_became_shorter_raises() -> None:
    batch = make_batch(0)
    with pytest.raises(CorruptBatchError, match="truncated"):
        list(walk_file(lambda size, offset: batch[offset : offset + size], 0, len(batch) + 100))

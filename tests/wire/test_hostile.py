"""Malformed messages raise only ProtocolError, which names field and byte."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import ProtocolError
from kraftlog.wire.codec import (
    decode,
    decode_part,
    encode,
    lenient_reader,
    reader,
    stepwise_reader,
)
from kraftlog.wire.primitives import string_as_java
from kraftlog.wire.schema import Message, array, string
from kraftlog.wire.versioned_schema import has_batches
from tests.wire.readers_agree import VERSIONS, assert_readers_agree, attempt, choose_message
from tests.wire.samples import Sampler, all_messages, for_every_message, plain, versions_of
from tests.wire.unknown_tags import encode_with_unknown_tags

#: Lengths beyond any frame, in every encoding of a length.
ABSURD = (b"\x7f\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\xff" * 9)
#: The number of positions in a message at which each kind of corruption is tried.
POSITIONS_PER_MESSAGE = 12


def small_message(cls: type[Message], version: int, seed: int = 0) -> bytes:
    random = Random(f"{cls.__name__}{version}{seed}")
    return encode(
        Sampler(random, small=True, own_tags=True, null_share=0.1).message(cls, version), version
    )


def positions(raw: bytes, random: Random) -> Iterator[int]:
    all_positions = range(len(raw))
    yield from (
        all_positions
        if len(raw) <= POSITIONS_PER_MESSAGE
        else random.sample(all_positions, POSITIONS_PER_MESSAGE)
    )


@for_every_message
def test_truncation_at_every_byte_is_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        raw = small_message(cls, version)
        for stop in range(len(raw)):
            error = assert_readers_agree(cls, version, raw[:stop])
            assert error
            assert error.field != f"{cls.__name__} v{version}", "names no field"
            with pytest.raises(ProtocolError) as caught:
                decode_part(cls, version, raw, 0, stop)  # the rest is beyond the end
            assert str(caught.value) == str(error)


@for_every_message
def test_bytes_after_the_message_are_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        raw = small_message(cls, version)
        error = assert_readers_agree(cls, version, raw + b"\0\1")
        assert error
        assert (error.what, error.position) == ("2 bytes too many", len(raw))


def compile_readers(cls: type[Message], version: int) -> None:
    """Compile the readers, so that only reading is measured."""
    reader(cls, version)
    lenient_reader(cls, version)
    stepwise_reader(cls, version)
    stepwise_reader(cls, version, lenient=True)
    string_as_java(b"\xed")  # imports what it needs


@for_every_message
def test_readers_agree_on_flipped_bits(cls: type[Message]) -> None:
    for version in versions_of(cls):
        raw, random = small_message(cls, version), Random(version)
        for position in positions(raw, random):
            flipped = raw[position] ^ (1 << random.randrange(8))
            assert_readers_agree(
                cls, version, raw[:position] + bytes((flipped,)) + raw[position + 1 :]
            )


def peak_of(read: Callable[[], object]) -> int:
    tracemalloc.start()
    read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def allocates_less_than(limit: int, read: Callable[[], object]) -> bool:
    """Measure up to three times: during one reading, a table of the interpreter may grow."""
    return any(peak_of(read) < limit for _ in range(3))


@for_every_message
def test_absurd_lengths_allocate_no_memory(cls: type[Message]) -> None:
    """Nothing is allocated for a length that exceeds the frame."""
    for version in versions_of(cls):
        raw, random = small_message(cls, version), Random(version)
        compile_readers(cls, version)
        for position in positions(raw, random):
            absurd = ABSURD[position % len(ABSURD)]
            broken = raw[:position] + absurd + raw[position + len(absurd) :]
            assert allocates_less_than(
                100_000 + 200 * len(raw), partial(assert_readers_agree, cls, version, broken)
            )


@for_every_message
def test_small_items_take_at_most_50_times_the_frame_in_memory(cls: type[Message]) -> None:
    """Each item, however small, becomes an object; the worst ratio seen is 35."""
    version = cls._versions[1]
    raw = small_message(cls, version)
    count = b"\0\0\x04\0" if version < cls._flexible else b"\x81\x08"
    compile_readers(cls, version)
    for start in range(0, len(raw), 4):
        for item_size in (2, 4, 6, 8):
            frame = raw[:start] + count + bytes((start % 2,)) * (1024 * item_size + 8)
            assert allocates_less_than(50 * len(frame), partial(attempt, cls, version, frame))


@for_every_message
def test_bytes_beyond_the_end_are_not_read(cls: type[Message]) -> None:
    """A frame may be part of a larger buffer: no wrong length leads a reader past the frame."""
    version = cls._versions[1]
    raw, trailing = small_message(cls, version), bytes(300_000)
    compile_readers(cls, version)
    for position in range(len(raw)):
        for length in (b"\x00\x03\xff\xff", b"\xff\xff\x0f"):
            frame = raw[:position] + length + raw[position + len(length) :]
            buffer = frame + trailing
            assert allocates_less_than(
                100_000, partial(attempt, cls, version, buffer, 0, len(frame))
            )


@for_every_message
def test_readers_agree_on_corrupt_unknown_tags(cls: type[Message]) -> None:
    for version in versions_of(cls):
        random = Random(f"{cls.__name__}{version}")
        message = Sampler(random, small=True).message(cls, version)
        raw = encode_with_unknown_tags(message, version)
        for position in positions(raw, random):
            broken = raw[:position] + b"\xff" + raw[position + 1 :]
            assert_readers_agree(cls, version, broken)


@for_every_message
def test_readers_agree_on_all_kinds_of_buffers(cls: type[Message]) -> None:
    version = cls._versions[1]
    raw, random = small_message(cls, version), Random(0)
    for position in positions(raw, random):
        broken = raw[:position] + b"\xff" + raw[position + 1 :]
        expected = assert_readers_agree(cls, version, broken)
        for buffer in (
            bytearray(broken),
            memoryview(broken),
            memoryview(b"__" + broken + b"__")[2:-2],
        ):
            if expected is None:
                assert plain(decode(cls, version, buffer)) == plain(decode(cls, version, broken))
                continue
            with pytest.raises(ProtocolError) as caught:
                decode(cls, version, buffer)
            assert str(caught.value) == str(expected)
        shifted = b"\x01" * 5 + broken + b"\x02" * 7
        if expected is not None:
            with pytest.raises(ProtocolError) as caught:
                decode(cls, version, shifted, 5, 5 + len(broken))
            assert str(caught.value) == str(expected)


@given(st.sampled_from(VERSIONS), st.binary(max_size=120))
def test_readers_agree_on_arbitrary_bytes(
    cls_and_version: tuple[type[Message], int], raw: bytes
) -> None:
    assert_readers_agree(*cls_and_version, raw)


CORPUS = os.path.join(os.path.dirname(__file__), "corpus")


@pytest.mark.parametrize("name", sorted(os.listdir(CORPUS)))
def test_readers_agree_on_the_fuzzing_corpus(name: str) -> None:
    """`make fuzz` stores its findings here; each is tried on every message."""
    with open(os.path.join(CORPUS, name), "rb") as file:
        data = file.read()
    assert_readers_agree(*choose_message(data))
    for cls in all_messages():
        assert_readers_agree(cls, cls._versions[1], data[2:])


class Words(Message, versions=(0, 1), flexible=1):
    words: tuple[str, ...] = array("string")
    last: str = string()


@pytest.mark.parametrize(
    ("version", "raw", "what", "field", "position"),
    [
        (0, b"\xff\xff\xff\xff\0\0", "null is not allowed", "words", 0),
        (0, b"\0\0\0\0\xff\xfe", "null is not allowed", "last", 4),
        (1, b"\1\xff\xff\xff\xff\x0f\0", "null is not allowed", "last", 1),
        (1, b"\1\0\0", "null is not allowed", "last", 1),
        (0, b"\0\0\0\0\x30\0" + 0x3000 * b"\xff", "string too long once read", "last", 6),
        (1, b"\xff\xff\xff\xff\x1f\1\0", "varint beyond 32 bits", "words", 5),
        (1, b"\xff\xff\xff\xff\xff\1\0", "varint longer than five bytes", "words", 5),
        (0, b"\0\0\0\x09\0\0", "array of 9 items, 2 bytes left", "words", 4),
        (0, b"\0\0\0\0\0\5ab", "5 bytes wanted, 2 left", "last", 6),
        (1, b"\1\1\1\3\5ab", "tagged field of 5 bytes, 2 left", "tags", 5),
        (1, b"\1\1\2\3\0\3\0", "tags out of order", "tags", 5),
        (1, b"\1\1\0\0", "1 bytes too many", "", 3),
    ],
)
def test_the_error_names_field_and_byte(
    version: int, raw: bytes, what: str, field: str, position: int
) -> None:
    error = assert_readers_agree(Words, version, raw)
    assert error
    name = f"Words v{version}" + (f": {field}" if field else "")
    assert (error.what, error.field, error.position) == (what, name, position)
    assert str(error) == f"{what} in {name} at byte {position}"


def test_messages_with_batches_are_covered() -> None:
    assert {"ProduceRequest", "FetchResponse"} <= {
        cls.__name__ for cls in all_messages() if has_batches(cls)
    }

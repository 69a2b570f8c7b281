"""Compiled readers and writers agree with the slow reader, for every message and version."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.wire.codec import (
    decode,
    decode_part,
    encode,
    encode_piece,
)
from kraftlog.wire.compiler import reader_source, writer_source
from kraftlog.wire.explain import read_slowly
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from kraftlog.wire.primitives import rest_of_uvarint, uvarint
from kraftlog.wire.schema import Message
from kraftlog.wire.versioned_schema import has_batches
from tests.wire.samples import Sampler, for_every_message, plain, versions_of
from tests.wire.unknown_tags import encode_with_unknown_tags

ROUNDS = 4


@for_every_message
def test_compiled_and_slow_readers_restore_the_message(cls: type[Message]) -> None:
    for version in versions_of(cls):
        sampler = Sampler(Random(f"{cls.__name__}{version}"), own_tags=True)
        for _ in range(ROUNDS):
            message = sampler.message(cls, version)
            raw = encode(message, version)
            slow, end = read_slowly(cls, version, raw)
            fast = decode(cls, version, raw)
            assert end == len(raw)
            assert plain(slow) == plain(fast) == plain(message)
            assert encode(slow, version) == encode(fast, version) == raw


@for_every_message
def test_any_buffer_is_decoded_at_any_position(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = Sampler(Random(f"{cls.__name__}{version}")).message(cls, version)
        raw = encode(message, version)
        framed = b"\xff\xfe\xfd" + raw + b"\xfc\xfb"
        stop = 3 + len(raw)
        for buffer in (
            framed,
            bytearray(framed),
            memoryview(framed),
            memoryview(bytearray(framed)),
        ):
            assert plain(decode(cls, version, buffer, 3, stop)) == plain(message)
            part, end = decode_part(cls, version, buffer, 3)
            assert (plain(part), end) == (plain(message), stop)


@for_every_message
def test_only_batches_are_views_of_the_buffer(cls: type[Message]) -> None:
    """The values of a request must not keep the receive buffer alive."""
    if has_batches(cls):
        return
    version = cls._versions[1]
    raw = bytearray(encode(Sampler(Random(1)).message(cls, version), version))
    before = plain(message := decode(cls, version, raw))
    raw[:] = bytes(len(raw))
    assert plain(message) == before
    raw.clear()  # raises BufferError if a view exists


@for_every_message
def test_unknown_tags_are_skipped(cls: type[Message]) -> None:
    for version in versions_of(cls):
        random = Random(f"{cls.__name__}{version}")
        message = Sampler(random, own_tags=True).message(cls, version)
        raw = encode_with_unknown_tags(message, version)
        assert plain(decode(cls, version, raw)) == plain(message)
        assert plain(read_slowly(cls, version, raw)[0]) == plain(message)
        assert (raw == encode(message, version)) == (version < cls._flexible)


@for_every_message
def test_sources_of_readers_and_writers_are_available(cls: type[Message]) -> None:
    version = cls._versions[1]
    assert reader_source(cls, version).startswith("def read(buf, pos, end):\n")
    assert writer_source(cls, version).startswith("def write(m, put):\n")


@given(st.integers(0, 2**32 - 1))
def test_a_varint_has_seven_bits_per_byte(value: int) -> None:
    raw = uvarint(value)
    assert sum((byte & 0x7F) << 7 * index for index, byte in enumerate(raw)) == value
    assert [byte > 0x7F for byte in raw] == [True] * (len(raw) - 1) + [False]
    assert len(raw) == max(1, -(-value.bit_length() // 7))
    if len(raw) > 1:
        assert rest_of_uvarint(raw, 1, raw[0]) == (value, len(raw))


@pytest.mark.parametrize("version", versions_of(MetadataResponse))
def test_encoded_structs_are_written_unchanged(version: int) -> None:
    for seed in range(10):
        whole = Sampler(Random(seed)).message(MetadataResponse, version)
        pieces = [encode_piece(MetadataResponse, version, topic) for topic in whole.topics]
        assert all(type(piece) is bytes for piece in pieces)
        mixed = [*pieces[::2], *whole.topics[1::2]]
        ordered = [*whole.topics[::2], *whole.topics[1::2]]
        assert encode(whole.replace(topics=pieces), version) == encode(whole, version)
        assert encode(whole.replace(topics=mixed), version) == encode(
            whole.replace(topics=ordered), version
        )


def test_only_fields_with_pieces_accept_encoded_structs() -> None:
    request = MetadataRequest(topics=(b"\0",))  # type: ignore[arg-type]  # the error under test
    with pytest.raises(AttributeError):
        encode(request, 12)

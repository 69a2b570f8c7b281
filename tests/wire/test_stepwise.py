"""Stepwise readers and writers agree with the plain ones, in bounded steps."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ProtocolError
from kraftlog.wire.codec import decode, decode_request_in_steps, encode, encode_in_steps
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kraftlog.wire.reader_generator import GIANT_ARRAY
from kraftlog.wire.source import ITEMS_PER_STEP
from kraftlog.wire.versioned_schema import has_batches
from tests.wire.samples import Sampler, for_every_message, plain, versions_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.wire.schema import Message


def run_steps(steps: Generator[int, None, Any]) -> tuple[Any, list[int]]:
    """Run a generator; return its result and the costs that it has yielded."""
    costs = []
    while True:
        try:
            costs.append(next(steps))
        except StopIteration as stop:
            return stop.value, costs


@for_every_message
def test_stepwise_readers_and_writers_agree_with_plain_ones(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = Sampler(Random(f"{cls.__name__}{version}"), own_tags=True).message(cls, version)
        raw = encode(message, version)
        pieces: list[bytes] = []
        for _ in encode_in_steps(message, version, pieces.append):
            pass
        assert b"".join(pieces) == raw
        if not has_batches(cls):
            for buffer, pos in ((raw + b"\xfe", 0), (bytearray(b"head" + raw), 4)):
                read, _ = run_steps(decode_request_in_steps(cls, version, buffer, pos))
                assert plain(read) == plain(decode(cls, version, raw))


def test_ids_decoded_from_a_mutable_buffer_are_hashable() -> None:
    """Topic ids are dict keys; a view of the buffer could not be hashed."""
    topic = MetadataRequestTopic(topic_id=b"i" * 16, name=None)
    buffer = bytearray(encode(MetadataRequest(topics=[topic]), 12))
    read, _ = run_steps(decode_request_in_steps(MetadataRequest, 12, buffer))
    assert hash(read.topics[0].topic_id) == hash(b"i" * 16)


def test_a_giant_array_stays_a_list() -> None:
    for count, kind in ((GIANT_ARRAY, tuple), (GIANT_ARRAY + 1, list)):
        topics = [MetadataRequestTopic(name="t")] * count
        raw = encode(MetadataRequest(topics=topics), 12)
        read, _ = run_steps(decode_request_in_steps(MetadataRequest, 12, raw))
        assert (type(read.topics), len(read.topics)) == (kind, count)


def test_a_step_has_a_bounded_number_of_items() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(1050)]
    request = MetadataRequest(topics=topics)
    pieces: list[bytes] = []
    write_costs = list(encode_in_steps(request, 12, pieces.append))
    raw = b"".join(pieces)
    _, read_costs = run_steps(decode_request_in_steps(MetadataRequest, 12, raw))
    assert write_costs == read_costs == [ITEMS_PER_STEP] * 10 + [50]


def test_stepwise_readers_accept_invalid_utf8() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(500)]
    raw = encode(MetadataRequest(topics=topics), 12).replace(b"topic-499", b"topic-\xff99")
    read, _ = run_steps(decode_request_in_steps(MetadataRequest, 12, raw))
    assert [topic.name for topic in read.topics[-2:]] == ["topic-498", "topic-\ufffd99"]


def test_stepwise_readers_refuse_truncated_data() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(500)]
    raw = encode(MetadataRequest(topics=topics), 12)
    steps = decode_request_in_steps(MetadataRequest, 12, raw[:-20])
    with pytest.raises(ProtocolError, match="MetadataRequest v12"):
        run_steps(steps)

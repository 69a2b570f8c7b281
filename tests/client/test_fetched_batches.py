"""Which batches of a fetch response a consumer gets."""

from __future__ import annotations

import struct
import zlib

import pytest

from kraftlog.client.fetched_batches import fetched_batches
from kraftlog.errors import CorruptBatchError
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.messages.fetch import PartitionData


def batch(offset: int = 0) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=1)
    builder.append(1, b"key", b"value")
    return bytes(builder.build())


def old_message(offset: int, value: bytes) -> bytes:
    """A message of format v1, as brokers before Kafka 0.11 have written it."""
    body = struct.pack(">bbqii", 1, 0, 7, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def offsets_in(data: bytes) -> list[int]:
    result = PartitionData(
        partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=data
    )
    return [header.base_offset for _, header, _ in fetched_batches(result)[1]]


def test_an_incomplete_batch_at_the_end_is_left_out() -> None:
    whole = batch(1)
    for size in range(len(whole)):
        assert offsets_in(batch() + whole[:size]) == [0]


@pytest.mark.parametrize("size", [0, 20, 100])
@pytest.mark.parametrize("before", [[], [0]], ids=["alone", "after a batch"])
def test_messages_of_old_formats_become_batches(size: int, before: list[int]) -> None:
    """Also one that is shorter than the header of a batch: it is no incomplete batch."""
    whole = batch() * len(before) + old_message(1, bytes(size))
    assert offsets_in(whole) == [*before, 1]
    assert offsets_in(whole[:-1]) == before


def test_a_wrong_message_of_an_old_format_is_an_error() -> None:
    with pytest.raises(CorruptBatchError, match="message at offset 1: checksum"):
        offsets_in(old_message(1, b"value")[:-1] + b"V")

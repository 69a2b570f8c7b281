"""Producer state at an offset, in Kafka's `.snapshot` files (version 1).

Recovery starts from the newest snapshot instead of reading the whole log. A snapshot has only the
last batch of each producer.
"""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.producers import (
    NO_OFFSET,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    ProducerEntry,
    ProducerState,
    RetainedBatch,
)
from kraftlog.records.crc import crc32c
from kraftlog.steps import result_of
from kraftlog.storage.checkpoints import LINES_PER_STEP
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
#: producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first
#: offset of the open transaction
_ENTRY = struct.Struct(">qhiqiqiq")


def encode_snapshot(state: ProducerState) -> bytes:
    return encode_entries(list(state.entries.values()))


def encode_entries(entries: list[ProducerEntry]) -> bytes:
    return result_of(encode_entries_in_steps(entries))


def encode_entries_in_steps(entries: list[ProducerEntry]) -> Generator[None, None, bytes]:
    """Like `encode_entries`, but in steps, as hundreds of thousands of producers take long."""
    body = [_COUNT.pack(len(entries))]
    for entry in entries:
        if not len(body) % LINES_PER_STEP:
            yield
        last = entry.batches[-1] if entry.batches else _NO_BATCH
        body.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_start,
            )
        )
    yield
    data = b"".join(body)
    return _HEAD.pack(_VERSION, crc32c(data)) + data


def decode_snapshot(data: bytes, path: str) -> ProducerState:
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptLogError(f"{path}: {len(data)} bytes are too few for a producer snapshot")
    version, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise CorruptLogError(f"{path}: a snapshot of version {version}, not {_VERSION}")
    if crc32c(body) != checksum:
        raise CorruptLogError(f"{path}: the checksum is wrong")
    (count,) = _COUNT.unpack_from(body)
    if len(body) - _COUNT.size != count * _ENTRY.size:
        raise CorruptLogError(f"{path}: {len(body)} bytes can't be {count} producers")
    return ProducerState([_entry(f) for f in _ENTRY.iter_unpack(body[_COUNT.size :])])


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, start = fields
    batches: tuple[RetainedBatch, ...] = ()
    if last_offset >= 0:
        batches = (RetainedBatch(last_sequence, last_offset, delta, timestamp),)
    return ProducerEntry(producer_id, epoch, batches, timestamp, coordinator, start)


_NO_BATCH = RetainedBatch(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)

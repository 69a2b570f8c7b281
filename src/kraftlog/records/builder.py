"""Builds record batches, byte for byte as Kafka's own builder does for the same input."""

from __future__ import annotations

import struct

from kraftlog.records.compression import NONE, compress
from kraftlog.records.crc import crc32c
from kraftlog.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from kraftlog.records.record import HEADER_NAME_ERRORS
from kraftlog.records.varint import NULL_LENGTH, encode_varint
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.records.header import BatchHeader
    from kraftlog.records.record import Header, Record
    from kraftlog.types import Buffer

#: The leader epoch of a batch that no leader has appended yet.
NO_LEADER_EPOCH = -1

#: The header up to the CRC, and the fields of the header that the CRC covers.
_FRONT = struct.Struct(">qiibI")
_CRC_COVERED = struct.Struct(">hiqqqhii")
assert _FRONT.size + _CRC_COVERED.size == HEADER_SIZE


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> bytes:
    """Encode a record as in a batch, prefixed with its length."""
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    parts += (NULL_LENGTH,) if key is None else (encode_varint(len(key)), key)
    parts += (NULL_LENGTH,) if value is None else (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        encoded = name.encode("utf-8", HEADER_NAME_ERRORS)
        parts += (encode_varint(len(encoded)), encoded)
        parts += (NULL_LENGTH,) if content is None else (encode_varint(len(content)), content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


class BatchBuilder:
    """Collects records into one batch.

    Offsets must ascend but may have gaps, as after compaction. The base timestamp is that of the
    first record, or the delete horizon if there is one.
    """

    def __init__(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        codec: int = NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        append_time_ms: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        if is_transactional and producer_id == NO_PRODUCER_ID:
            raise ValueError("a transactional batch needs a producer id")
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.codec = codec
        self.level = level
        self.producer = (producer_id, producer_epoch, base_sequence)
        self.append_time_ms = append_time_ms
        self.base_timestamp = delete_horizon_ms
        self.max_timestamp = NO_TIMESTAMP
        self.next_offset = base_offset
        #: The uncompressed size of the batch so far.
        self.size = HEADER_SIZE
        self.attributes = (
            codec
            | (TIMESTAMP_TYPE_BIT if append_time_ms is not None else 0)
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )
        self._records: list[bytes] = []

    @property
    def record_count(self) -> int:
        return len(self._records)

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        *,
        offset: int | None = None,
    ) -> int:
        """Add a record at `offset`, by default the next one; return its offset."""
        offset = self.next_offset if offset is None else offset
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} after offset {self.next_offset - 1}")
        if self.base_timestamp is None:
            self.base_timestamp = timestamp_ms
        encoded = encode_record(
            offset - self.base_offset, timestamp_ms - self.base_timestamp, key, value, headers
        )
        self._records.append(encoded)
        self.size += len(encoded)
        self.next_offset = offset + 1
        self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        return offset

    def build(self, *, last_offset: int | None = None) -> bytes:
        """Build the batch; `last_offset` is beyond the last record if compaction removed some."""
        if not self._records:
            raise ValueError("a batch without records is made by build_empty_batch")
        last = self.next_offset - 1 if last_offset is None else last_offset
        if last < self.next_offset - 1:
            raise ValueError(f"last offset {last} before the last record {self.next_offset - 1}")
        assert self.base_timestamp is not None
        records = b"".join(self._records)
        return _assemble(
            self.base_offset,
            self.leader_epoch,
            _CRC_COVERED.pack(
                self.attributes,
                last - self.base_offset,
                self.base_timestamp,
                self.max_timestamp if self.append_time_ms is None else self.append_time_ms,
                *self.producer,
                len(self._records),
            ),
            compress(self.codec, records, self.level) if self.codec else records,
        )


def build_batch(
    records: Iterable[Record],
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: int = NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytes:
    """Build a batch of records with given offsets; the first is the base offset."""
    records = list(records)
    builder = BatchBuilder(
        base_offset=records[0].offset if records else 0,
        leader_epoch=leader_epoch,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for record in records:
        builder.append(
            record.timestamp_ms, record.key, record.value, record.headers, offset=record.offset
        )
    return builder.build()


def wrap_records(
    records: Buffer,
    count: int,
    *,
    base_timestamp: int,
    max_timestamp: int,
    codec: int = NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Build a batch of `count` encoded records, numbered from 0, as a producer sends it."""
    return _assemble(
        0,
        NO_LEADER_EPOCH,
        _CRC_COVERED.pack(
            codec,
            count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
        compress(codec, bytes(records), level) if codec else records,
    )


def build_empty_batch(
    base_offset: int,
    last_offset: int,
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    timestamp_ms: int = NO_TIMESTAMP,
    is_transactional: bool = False,
    is_control: bool = False,
    has_log_append_time: bool = False,
) -> bytes:
    """Build the empty batch that compaction leaves when it removes all records of a batch.

    It keeps the producer's last sequence, so that the producer's next batch is in sequence.
    """
    attributes = (
        (TIMESTAMP_TYPE_BIT if has_log_append_time else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
    )
    return _assemble(
        base_offset,
        leader_epoch,
        _CRC_COVERED.pack(
            attributes,
            last_offset - base_offset,
            NO_TIMESTAMP,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            0,
        ),
        b"",
    )


def rebuild_batch(
    header: BatchHeader, records: bytes, record_count: int, max_timestamp: int
) -> bytes:
    """Rebuild a batch from the remaining `records`: their unchanged, uncompressed bytes."""
    return _assemble(
        header.base_offset,
        header.leader_epoch,
        _CRC_COVERED.pack(
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            record_count,
        ),
        compress(header.codec, records) if header.codec else records,
    )


def _assemble(base_offset: int, leader_epoch: int, covered: bytes, payload: Buffer) -> bytes:
    body = b"".join((covered, payload))
    length = _FRONT.size + len(body) - LENGTH_OVERHEAD
    return _FRONT.pack(base_offset, length, leader_epoch, MAGIC, crc32c(body)) + body

"""Validates the records of a produce request, in Kafka's order and with its error codes.

`check_produced` checks the header and the CRC, and leaves the records opaque: most topics need no
more. `check_records` decodes them, which a compacted topic needs for its keys. Kafka decodes every
batch; docs/understand/records.md lists the differences for clients.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, ErrorCode, RejectedRecordsError
from kraftlog.records.capacity import header_error
from kraftlog.records.compression import ZSTD
from kraftlog.records.crc import crc32c
from kraftlog.records.examine import examine_records
from kraftlog.records.header import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    read_header,
)
from kraftlog.records.reader import MAX_RECORDS_SIZE, records_payload
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.records.header import BatchHeader
    from kraftlog.types import Buffer

#: Up to the magic byte a batch has the layout of the oldest format, whose header had this size.
_SIZE_UP_TO_MAGIC = 17
#: The minimum batch length of the oldest format; Kafka checks it before the format.
_OLDEST_MIN_LENGTH = 14
_UNBOUNDED = (1 << 63) - 1
#: The most rejected records in a response, as a small batch must not cause a huge one:
#: librdkafka's default maximum of records in a batch.
MAX_REJECTED = 10_000

#: Records in a step of the check, and its cost in microseconds.
RECORDS_PER_STEP = 500
STEP_COST = 500


class ProduceRules(Value):
    """Which batches a topic and a request version accept. The defaults are Kafka's."""

    #: max.message.bytes and segment.bytes
    max_batch_size: int = 1_048_588
    segment_size: int = 1 << 30
    #: message.timestamp.before.max.ms and message.timestamp.after.max.ms
    before_max_ms: int = _UNBOUNDED
    after_max_ms: int = 3_600_000
    #: message.timestamp.type is LogAppendTime: producers' timestamps are ignored
    has_log_append_time: bool = False
    #: cleanup.policy has compact
    needs_keys: bool = False
    #: batch.validation is records
    checks_every_record: bool = False
    #: Produce requests before version 7 do not support zstd
    allows_zstd: bool = True

    @property
    def needs_record_checks(self) -> bool:
        """Whether the header does not suffice, so that `check_records` must follow."""
        return self.needs_keys or self.checks_every_record or self.before_max_ms < _UNBOUNDED


def check_produced(records: Buffer, rules: ProduceRules, now_ms: int) -> BatchHeader:
    """Return the header of the one valid batch in `records`, or raise with an error code."""
    header = _first_batch(records, rules)
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset}; producers number from 0")
    if header.size > rules.max_batch_size:
        raise CorruptBatchError(
            f"a batch of {header.size} bytes, at most {rules.max_batch_size} are accepted",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    if header.size < HEADER_SIZE:
        raise CorruptBatchError(f"a batch of {header.size} bytes")
    if crc32c(memoryview(records)[CRC_START : header.size]) != header.crc:
        raise CorruptBatchError("the checksum does not match")
    if header.size < len(records):
        # Kafka drops a partial second batch and acknowledges the first. Refusing both tells the
        # client that the second was not written.
        raise _invalid(f"{len(records) - header.size} bytes after the only allowed batch")
    if header.codec > ZSTD:
        # Kafka returns UNKNOWN_SERVER_ERROR for these.
        raise CorruptBatchError(
            f"unknown compression codec {header.codec}",
            code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
    _check_numbers(header)
    error = header_error(header.codec, memoryview(records)[HEADER_SIZE:], header.record_count)
    if error:
        raise _invalid(error)
    if header.has_log_append_time:
        # Kafka clears the bit on a topic with CreateTime, and refuses it on one with LogAppendTime.
        raise CorruptBatchError(
            "only the broker sets the log append time", code=ErrorCode.INVALID_TIMESTAMP
        )
    error = _timestamp_error(header.max_timestamp, rules, now_ms)
    if error:
        # This names the records with a wrong timestamp; the client may resend the others.
        check_records(records, header, rules, now_ms)
        raise CorruptBatchError(error, code=ErrorCode.INVALID_TIMESTAMP)
    if header.size > rules.segment_size:
        raise CorruptBatchError(
            f"a batch of {header.size} bytes, a segment holds {rules.segment_size}",
            code=ErrorCode.RECORD_LIST_TOO_LARGE,
        )
    return header


def check_records(
    records: Buffer,
    header: BatchHeader,
    rules: ProduceRules,
    now_ms: int,
    *,
    max_size: int = MAX_RECORDS_SIZE,
) -> int:
    """Check every record of a batch by the topic's configs; return the largest timestamp.

    The header's max timestamp should be the same.
    """
    steps = check_records_in_steps(records, header, rules, now_ms, max_size=max_size)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            max_timestamp: int = stop.value
            return max_timestamp


def check_records_in_steps(
    records: Buffer,
    header: BatchHeader,
    rules: ProduceRules,
    now_ms: int,
    *,
    max_size: int = MAX_RECORDS_SIZE,
) -> Generator[int, None, int]:
    """Like `check_records`, in steps; yields the cost of each in microseconds."""
    rejected: list[tuple[int, str]] = []
    max_timestamp = NO_TIMESTAMP
    earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    code = ErrorCode.INVALID_RECORD
    try:
        payload = records_payload(records, header, max_size=max_size)
        yield len(payload) >> 11  # decompression: a microsecond per 2 KiB
        number = -1
        for delta, timestamp_ms, has_key in examine_records(header, payload):
            number += 1
            if not number % RECORDS_PER_STEP and number:
                yield STEP_COST
            max_timestamp = max(max_timestamp, timestamp_ms)
            if delta != number:
                raise _invalid(f"record {number} has the offset delta {delta}")
            if rules.needs_keys and not has_key:
                rejected.append((number, "a record of a compacted topic must have a key"))
            elif earliest <= timestamp_ms <= latest:
                continue  # the common case, without the call
            elif problem := _timestamp_error(timestamp_ms, rules, now_ms):
                rejected.append((number, problem))
                code = ErrorCode.INVALID_TIMESTAMP
            if len(rejected) == MAX_REJECTED:
                break
    except CorruptBatchError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise
        # The checksum is valid, so a retry, as after CORRUPT_MESSAGE, would not help.
        raise _invalid(error.what) from error
    if rejected:
        what = f"{len(rejected)} of {header.record_count} records are refused: {rejected[0][1]}"
        raise RejectedRecordsError(what, code=code, rejected=rejected)
    return max_timestamp


def _first_batch(records: Buffer, rules: ProduceRules) -> BatchHeader:
    """Read the header after checking the size and the record format."""
    size = len(records)
    if size < _SIZE_UP_TO_MAGIC:
        raise _invalid(f"{size} bytes are not a record batch")
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < _OLDEST_MIN_LENGTH:
        raise CorruptBatchError(f"a batch length of {length}")
    if length + LENGTH_OVERHEAD > size:
        raise _invalid(f"a batch of {length + LENGTH_OVERHEAD} bytes, truncated after {size}")
    magic = records[16]
    if magic != MAGIC:
        # Kafka 4.3.1 returns INVALID_RECORD for formats 0 and 1 (ProduceRequest.validateRecords,
        # for requests from version 3, the oldest that it supports), and CORRUPT_MESSAGE for unknown
        # formats (ByteBufferLogInputStream.nextBatchSize).
        raise CorruptBatchError(
            f"record format {magic}; producers must write format {MAGIC}",
            code=ErrorCode.INVALID_RECORD if magic < MAGIC else ErrorCode.CORRUPT_MESSAGE,
        )
    if size < HEADER_SIZE:
        raise CorruptBatchError(f"{size} bytes can't hold a batch")
    header = read_header(records)
    if header.codec == ZSTD and not rules.allows_zstd:
        raise CorruptBatchError(
            "this version of the request can't carry zstd",
            code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
    return header


def _check_numbers(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if header.is_control:
        raise _invalid("control records come from brokers only")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise _invalid(f"sequence number {header.base_sequence} from producer {header.producer_id}")


def _timestamp_error(timestamp_ms: int, rules: ProduceRules, now_ms: int) -> str:
    """Explain why a timestamp is refused; an empty string if it is accepted."""
    if rules.has_log_append_time or timestamp_ms == NO_TIMESTAMP:
        return ""
    if -rules.after_max_ms <= now_ms - timestamp_ms <= rules.before_max_ms:
        return ""
    earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    return f"timestamp {timestamp_ms} is not within [{earliest}, {latest}]"


def _invalid(what: str) -> CorruptBatchError:
    return CorruptBatchError(what, code=ErrorCode.INVALID_RECORD)

"""Validates the records of a produce request, in Kafka's order and with its error codes.

`check_produced` looks at the header and the checksum, which is all that the ordinary path needs:
the records stay opaque. `check_records` opens the batch, which a compacted topic must do for its
keys. Kafka opens every batch; what differs for a client is said in docs/records.md.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, ErrorCode, RejectedRecordsError
from kraftlog.records.capacity import why_not
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
from kraftlog.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.records.header import BatchHeader
    from kraftlog.types import Buffer

#: Up to the magic byte a batch lies as in the oldest format, whose head was this long.
_SIZE_UP_TO_MAGIC = 17
#: The smallest batch length of the oldest format; Kafka refuses less before it knows the format.
_OLDEST_MIN_LENGTH = 14
_UNBOUNDED = (1 << 63) - 1
#: How many rejected records are named, so that a small batch has no huge answer. As many as
#: librdkafka puts into one at most, if not told otherwise.
MAX_REJECTED = 10_000

#: After so many records there is a pause, where there may be one, and what they have cost.
RECORDS_IN_A_STEP = 500
A_STEP_COSTS = 500


class ProduceRules(Value):
    """A topic's settings that decide what is accepted. The defaults are Kafka's."""

    #: max.message.bytes and segment.bytes
    max_batch_size: int = 1_048_588
    segment_size: int = 1 << 30
    #: message.timestamp.before.max.ms and message.timestamp.after.max.ms
    before_max_ms: int = _UNBOUNDED
    after_max_ms: int = 3_600_000
    #: message.timestamp.type is LogAppendTime: what producers say does not matter
    has_log_append_time: bool = False
    #: cleanup.policy has compact
    needs_keys: bool = False
    #: batch.validation is records
    opens_batches: bool = False
    #: Produce requests before version 7 can't carry it
    allows_zstd: bool = True

    @property
    def concern_records(self) -> bool:
        """Whether the header can't tell all, so that `check_records` must follow."""
        return self.needs_keys or self.opens_batches or self.before_max_ms < _UNBOUNDED


def check_produced(records: Buffer, rules: ProduceRules, now_ms: int) -> BatchHeader:
    """The header of the one batch that `records` must be; else an error with the client's code."""
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
        # Kafka drops a rest that is no whole batch, and acknowledges. A client that thinks to have
        # written two batches is better told that it has not.
        raise _invalid(f"{len(records) - header.size} bytes behind the one batch that is allowed")
    if header.codec > ZSTD:
        # Kafka trips over these and answers UNKNOWN_SERVER_ERROR.
        raise CorruptBatchError(
            f"unknown compression codec {header.codec}",
            code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
    _check_numbers(header)
    lie = why_not(header.codec, memoryview(records)[HEADER_SIZE:], header.record_count)
    if lie:
        raise _invalid(lie)
    if header.has_log_append_time:
        # Kafka clears the bit again on a topic with create time, and refuses on the other.
        raise CorruptBatchError(
            "append time is the broker's to give", code=ErrorCode.INVALID_TIMESTAMP
        )
    wrong = _wrong_timestamp(header.max_timestamp, rules, now_ms)
    if wrong:
        # The records say which of them it is: the others may be sent again without these.
        check_records(records, header, rules, now_ms)
        raise CorruptBatchError(wrong, code=ErrorCode.INVALID_TIMESTAMP)
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
    """Open a batch and check every record in it, as the topic's settings ask.

    Gives the greatest timestamp, which the header should have.
    """
    checking = checking_records(records, header, rules, now_ms, max_size=max_size)
    while True:
        try:
            next(checking)
        except StopIteration as stop:
            greatest: int = stop.value
            return greatest


def checking_records(
    records: Buffer,
    header: BatchHeader,
    rules: ProduceRules,
    now_ms: int,
    *,
    max_size: int = MAX_RECORDS_SIZE,
) -> Generator[int, None, int]:
    """The same in steps; yields the cost of each in microseconds."""
    rejected: list[tuple[int, str]] = []
    greatest = NO_TIMESTAMP
    earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    code = ErrorCode.INVALID_RECORD
    try:
        payload = records_payload(records, header, max_size=max_size)
        yield len(payload) >> 11
        number = -1
        for delta, timestamp_ms, has_key in examine_records(header, payload):
            number += 1
            if not number % RECORDS_IN_A_STEP and number:
                yield A_STEP_COSTS
            greatest = max(greatest, timestamp_ms)
            if delta != number:
                raise _invalid(f"record {number} has the offset delta {delta}")
            if rules.needs_keys and not has_key:
                rejected.append((number, "a record of a compacted topic must have a key"))
            elif earliest <= timestamp_ms <= latest:
                continue  # as nearly always; the call would say so, too
            elif wrong := _wrong_timestamp(timestamp_ms, rules, now_ms):
                rejected.append((number, wrong))
                code = ErrorCode.INVALID_TIMESTAMP
            if len(rejected) == MAX_REJECTED:
                break
    except CorruptBatchError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise
        # The checksum is right, so sending the same again, as clients do, would not help.
        raise _invalid(error.what) from error
    if rejected:
        what = f"{len(rejected)} of {header.record_count} records are refused: {rejected[0][1]}"
        raise RejectedRecordsError(what, code=code, rejected=rejected)
    return greatest


def _first_batch(records: Buffer, rules: ProduceRules) -> BatchHeader:
    """The header, once there are bytes for the batch and its format is ours."""
    size = len(records)
    if size < _SIZE_UP_TO_MAGIC:
        raise _invalid(f"{size} bytes are no record batch")
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < _OLDEST_MIN_LENGTH:
        raise CorruptBatchError(f"a batch length of {length}")
    if length + LENGTH_OVERHEAD > size:
        raise _invalid(f"a batch of {length + LENGTH_OVERHEAD} bytes, cut off after {size}")
    magic = records[16]
    if magic != MAGIC:
        # Kafka 4.3.1 answers INVALID_RECORD to the formats 0 and 1 (ProduceRequest.validateRecords
        # for requests from version 3, the oldest that it takes), CORRUPT_MESSAGE to those that
        # never were (ByteBufferLogInputStream.nextBatchSize).
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


def _wrong_timestamp(timestamp_ms: int, rules: ProduceRules, now_ms: int) -> str:
    """Why it is not accepted; nothing where it is."""
    if rules.has_log_append_time or timestamp_ms == NO_TIMESTAMP:
        return ""
    if -rules.after_max_ms <= now_ms - timestamp_ms <= rules.before_max_ms:
        return ""
    earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    return f"timestamp {timestamp_ms} is not within [{earliest}, {latest}]"


def _invalid(what: str) -> CorruptBatchError:
    return CorruptBatchError(what, code=ErrorCode.INVALID_RECORD)

"""Record sets of produce requests, and Apache Kafka 4.3.1's response to each.

Each was sent to a broker of that version (Produce version 8, acks=all, to a topic with the configs
of `TOPICS`), which returned the error code `kafka`. `ours` is kraftlog's;
docs/understand/records.md gives the reasons where the two differ.
"""

from __future__ import annotations

import gzip
import struct
from typing import Any, NamedTuple

import cramjam

from kraftlog.errors import ErrorCode
from kraftlog.records import compression
from kraftlog.records.builder import BatchBuilder, encode_record
from kraftlog.records.crc import crc32c
from kraftlog.records.header import HEADER
from kraftlog.records.validate import ProduceRules

NOW_MS = 1_760_000_000_000

#: Fields of a batch header: their positions, and their formats for `struct`.
BASE_OFFSET = 0, ">q"
LENGTH = 8, ">i"
LEADER_EPOCH = 12, ">i"
MAGIC = 16, ">b"
ATTRIBUTES = 21, ">h"
LAST_OFFSET_DELTA = 23, ">i"
MAX_TIMESTAMP = 35, ">q"
RECORD_COUNT = 57, ">i"

OK = ErrorCode.NONE
CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD
BAD_TIMESTAMP = ErrorCode.INVALID_TIMESTAMP
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR

_COMPRESSORS = (cramjam.snappy.compress_raw, cramjam.lz4.compress, cramjam.zstd.compress)

#: The rules of each topic.
TOPICS = {
    "plain": ProduceRules(),
    "compacted": ProduceRules(needs_keys=True),
    "appendtime": ProduceRules(has_log_append_time=True),
    "small": ProduceRules(max_batch_size=500),
    "smallseg": ProduceRules(max_batch_size=5_000_000, segment_size=1_048_576),
    "bounded": ProduceRules(before_max_ms=1_000_000, after_max_ms=1_000_000),
}


class Case(NamedTuple):
    name: str
    topic: str
    records: bytes
    kafka: int
    ours: int


def batch_of(
    count: int = 3, time_ms: int = NOW_MS, key: bytes | None = b"k", **fields: Any
) -> bytes:
    """A batch as a client builds it."""
    builder = BatchBuilder(**fields)
    for number in range(count):
        builder.append(time_ms + number, key, b"v%d" % number)
    return builder.build()


def with_crc(batch: bytes) -> bytes:
    """The batch with a correct checksum."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def with_field(batch: bytes, field: tuple[int, str], number: int) -> bytes:
    """The batch with another number in a header field, and a correct checksum."""
    position, struct_format = field
    changed = bytearray(batch)
    struct.pack_into(struct_format, changed, position, number)
    return with_crc(bytes(changed))


def batch_with_payload(payload: bytes, count: int, last_delta: int, attributes: int = 0) -> bytes:
    """A batch whose header has these values, whatever the payload contains."""
    head = HEADER.pack(
        0, 49 + len(payload), -1, 2, 0, attributes, last_delta, NOW_MS, NOW_MS, -1, -1, -1, count
    )
    return with_crc(head + payload)


def record(offset_delta: int) -> bytes:
    return encode_record(offset_delta, 0, b"k", b"v")


def cases() -> list[Case]:
    all_cases = []

    def case(
        name: str, records: bytes, kafka: int, *, topic: str = "plain", ours: int | None = None
    ) -> None:
        all_cases.append(Case(name, topic, records, kafka, kafka if ours is None else ours))

    _sizes_and_checksums(case)
    _header_fields(case)
    _counts(case)
    _producers(case)
    _payloads(case)
    _times_keys_and_sizes(case)
    return all_cases


def _sizes_and_checksums(case: Any) -> None:
    good = batch_of()
    case("good", good, OK)
    case("nothing", b"", INVALID)
    case("shorter than a length", good[:11], INVALID)
    case("cut in the header", good[:40], INVALID)
    case("cut in the records", good[:-1], INVALID)
    case("5 bytes after the batch", good + bytes(5), OK, ours=INVALID)
    case("half a batch after the batch", good + good[:40], OK, ours=INVALID)
    case("61 zero bytes after the batch", good + bytes(61), CORRUPT, ours=INVALID)
    case("two batches", good + good, INVALID)
    case("length 13", with_field(good, LENGTH, 13), CORRUPT)
    case("length 14", with_field(good, LENGTH, 14), CORRUPT)
    case("length 48", with_field(good, LENGTH, 48), CORRUPT)
    case("length 14, and no more bytes", with_field(good, LENGTH, 14)[:26], UNKNOWN, ours=CORRUPT)
    short = with_field(batch_with_payload(b"", 1, 0), LENGTH, 14)
    short = short[:17] + struct.pack(">I", crc32c(short[21:26])) + short[21:]
    case("length 14 with its checksum", short, CORRUPT)
    case("length -1", with_field(good, LENGTH, -1), CORRUPT)
    case("length 1 more", with_field(good, LENGTH, len(good) - 11), INVALID)
    case("length 1 less", with_field(good, LENGTH, len(good) - 13), CORRUPT)
    shorter = with_crc(with_field(good, LENGTH, len(good) - 13)[:-1])
    case("length 1 less with its checksum", shorter + good[-1:], INVALID)
    case("magic 0", with_field(good, MAGIC, 0), INVALID)
    case("magic 1", with_field(good, MAGIC, 1), INVALID)
    case("magic 3", with_field(good, MAGIC, 3), CORRUPT)
    case("magic -1", with_field(good, MAGIC, -1), CORRUPT)
    case("wrong checksum", good[:-1] + b"X", CORRUPT)
    case("wrong checksum of a control batch", batch_of(is_control=True)[:-1] + b"X", CORRUPT)
    case("wrong checksum and base offset", with_field(good, BASE_OFFSET, 5)[:-1] + b"X", INVALID)


def _header_fields(case: Any) -> None:
    good = batch_of()
    case("base offset 5", with_field(good, BASE_OFFSET, 5), INVALID)
    case("base offset -1", with_field(good, BASE_OFFSET, -1), INVALID)
    case("leader epoch 7", with_field(good, LEADER_EPOCH, 7), OK)
    case("no records", batch_with_payload(b"", 0, 0), INVALID)
    case("no records and no offsets", batch_with_payload(b"", 0, -1), INVALID)
    case("count -1", with_field(good, RECORD_COUNT, -1), INVALID)
    case("count too small", with_field(good, RECORD_COUNT, 2), INVALID)
    case("count too large", with_field(good, RECORD_COUNT, 4), INVALID)
    case("last delta too small", with_field(good, LAST_OFFSET_DELTA, 1), INVALID)
    case("last delta too large", with_field(good, LAST_OFFSET_DELTA, 3), INVALID)
    case("last delta -1", with_field(good, LAST_OFFSET_DELTA, -1), INVALID)
    case("last delta lowest", with_field(good, LAST_OFFSET_DELTA, -(2**31)), INVALID)
    case("attribute bit 7", with_field(good, ATTRIBUTES, 0x80), OK)
    case("attribute bit 15", with_field(good, ATTRIBUTES, -0x8000), OK)
    case("delete horizon", with_field(good, ATTRIBUTES, 0x40), OK)
    for codec in (5, 6, 7):
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        case(f"codec {codec}", with_field(good, ATTRIBUTES, codec), UNKNOWN, ours=code)


def _counts(case: Any) -> None:
    """Counts beyond what the bytes can contain, and payloads that begin in an unusual way."""
    highest = 2**31 - 1
    single_record = record(0)
    case("highest count in no bytes", batch_with_payload(b"", highest, highest - 1), INVALID)
    case(
        "highest count in one record",
        batch_with_payload(single_record, highest, highest - 1),
        INVALID,
    )
    case("count 2 in one record", batch_with_payload(single_record, 2, 1), INVALID)
    packed = [gzip.compress(single_record), *(bytes(pack(single_record)) for pack in _COMPRESSORS)]
    for codec, payload in enumerate(packed, start=1):
        name = f"highest count in one record by {compression.CODEC_NAMES[codec]}"
        kafka = UNKNOWN if codec == compression.LZ4 else INVALID
        case(name, batch_with_payload(payload, highest, highest - 1, codec), kafka, ours=INVALID)
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + packed[3]
    case("a skippable frame before zstd", batch_with_payload(skippable, 1, 0, 4), OK)
    case(
        "empty members before gzip",
        batch_with_payload(gzip.compress(b"") * 3 + packed[0], 1, 0, 1),
        OK,
    )
    case(
        "gzip declared as zstd", with_field(batch_of(codec=1), ATTRIBUTES, 4), UNKNOWN, ours=INVALID
    )


def _producers(case: Any) -> None:
    case("control batch", batch_of(1, is_control=True), INVALID)
    case("no sequence", batch_of(producer_id=5, producer_epoch=0), INVALID)
    case("no producer epoch", batch_of(producer_id=5, base_sequence=0), OK)
    case("producer", batch_of(producer_id=900, producer_epoch=0, base_sequence=0), OK)
    case("sequence without producer", batch_of(base_sequence=3), OK)
    case("epoch without producer", batch_of(producer_epoch=3), OK)
    case("producer -2", batch_of(producer_id=-2, producer_epoch=0, base_sequence=0), OK)


def _payloads(case: Any) -> None:
    """Errors that only the records show."""
    case("a record too few", batch_with_payload(record(0) + record(1), 3, 2), INVALID)
    case("a record too many", batch_with_payload(record(0) + record(1) + record(2), 2, 1), INVALID)
    case("a byte after the record", batch_with_payload(record(0) + b"\0", 1, 0), INVALID)
    case("a truncated record", batch_with_payload(record(0)[:-1], 1, 0), INVALID)
    case("offsets swapped", batch_with_payload(record(1) + record(0), 2, 1), OK, ours=INVALID)
    case("offsets all 0", batch_with_payload(record(0) + record(0), 2, 1), OK, ours=INVALID)
    case("offset outside", batch_with_payload(record(7), 1, 0), OK, ours=INVALID)
    swapped = gzip.compress(record(1) + record(0))
    case("offsets swapped in gzip", batch_with_payload(swapped, 2, 1, 1), UNKNOWN, ours=INVALID)
    two = gzip.compress(record(0) + record(1))
    case("a record too many in gzip", batch_with_payload(two, 1, 0, 1), INVALID)
    case("a record too few in gzip", batch_with_payload(two, 3, 2, 1), INVALID)
    single_record = record(0)
    case(
        "snappy in one block",
        batch_with_payload(bytes(cramjam.snappy.compress_raw(single_record)), 1, 0, 2),
        OK,
    )
    case(
        "bytes after gzip",
        batch_with_payload(gzip.compress(single_record) + b"xx", 1, 0, 1),
        OK,
        ours=INVALID,
    )
    lz4 = bytes(cramjam.lz4.compress(single_record)) + b"xx"
    case("bytes after lz4", batch_with_payload(lz4, 1, 0, 3), UNKNOWN, ours=INVALID)
    for codec, name in enumerate(compression.CODEC_NAMES):
        case(f"compressed with {name}", batch_of(codec=codec), OK)
        if codec:
            plain = with_field(batch_of(), ATTRIBUTES, codec)
            case(f"not compressed with {name}", plain, UNKNOWN, ours=INVALID)


def _times_keys_and_sizes(case: Any) -> None:
    append_time = with_field(batch_of(), ATTRIBUTES, 8)
    case("append time flag", append_time, OK, ours=BAD_TIMESTAMP)
    case("append time flag, append time", append_time, BAD_TIMESTAMP, topic="appendtime")
    case("no timestamp", batch_of(1, -1), OK)
    case("timestamp -2", batch_of(1, -2), OK)
    case("greatest timestamp 5", with_field(batch_of(), MAX_TIMESTAMP, 5), OK)
    case("future", batch_of(3, NOW_MS + 2_000_000), BAD_TIMESTAMP, topic="bounded")
    case("past", batch_of(3, NOW_MS - 2_000_000), BAD_TIMESTAMP, topic="bounded")
    case("no timestamp where bounded", batch_of(1, -1), OK, topic="bounded")
    case("within bounds", batch_of(3, NOW_MS - 500_000), OK, topic="bounded")
    case("future with append time", batch_of(3, NOW_MS + 10**9), OK, topic="appendtime")
    case("no key", batch_of(key=None), INVALID, topic="compacted")
    case("no key in gzip", batch_of(key=None, codec=1), INVALID, topic="compacted")
    case("key", batch_of(), OK, topic="compacted")
    large = batch_of(50)
    case("too large", large, ErrorCode.MESSAGE_TOO_LARGE, topic="small")
    case(
        "too large, wrong checksum",
        large[:-1] + b"X",
        ErrorCode.MESSAGE_TOO_LARGE,
        topic="small",
    )
    case("too large, magic 1", with_field(large, MAGIC, 1), INVALID, topic="small")
    huge = batch_with_payload(encode_record(0, 0, b"k", bytes(2_000_000)), 1, 0)
    case("larger than a segment", huge, ErrorCode.RECORD_LIST_TOO_LARGE, topic="smallseg")

"""The check of an ordinary produced batch in one expression.

In a topic that stores batches unchanged, nearly all batches need only a check of the header and the
checksum. `validate.check_produced` says what is wrong with the others.
"""

from __future__ import annotations

from kraftlog.records.capacity import EXPANSION, MOST_RECORDS, has_codec_magic
from kraftlog.records.compression import ZSTD
from kraftlog.records.crc import crc32c
from kraftlog.records.header import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
)
from kraftlog.records.reader import MIN_RECORD_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.records.validate import ProduceRules

SMALLEST_BATCH = HEADER_SIZE + MIN_RECORD_SIZE
#: The indexes of some fields in a header.
LAST_OFFSET_DELTA, MAX_TIMESTAMP, PRODUCER_ID = 6, 8, 9
_unpack_header = HEADER.unpack_from


def plain_fields(
    view: memoryview, position: int, size: int, rules: ProduceRules, now_ms: int
) -> Sequence[int] | None:
    """The header fields of a valid batch of `size` bytes at this position of `view`, or None.

    The result is also None if any attribute but the codec is set: `check_produced` then decides
    whether the batch is valid.
    """
    if size < SMALLEST_BATCH:
        return None
    fields = _unpack_header(view, position)
    base, length, _, magic, crc, attributes, delta, _, max_time, producer_id, _, sequence, count = (
        fields
    )
    if (
        base
        or length != size - LENGTH_OVERHEAD
        or magic != MAGIC
        or not 0 <= attributes <= ZSTD  # a codec and no other bit
        or count != delta + 1
        # The smallest batch has room for one uncompressed record.
        or (
            (count != 1 or attributes)
            and (
                not 1 <= count <= MOST_RECORDS
                or count * MIN_RECORD_SIZE > (size - HEADER_SIZE) * EXPANSION[attributes]
                or (attributes and not _has_magic(view, position, attributes, rules))
            )
        )
        or size > rules.max_batch_size
        or size > rules.segment_size
        or (
            max_time != NO_TIMESTAMP
            and not -rules.after_max_ms <= now_ms - max_time <= rules.before_max_ms
        )
        or (producer_id >= 0 and sequence < 0)
        or crc32c(view[position + CRC_START : position + size]) != crc
    ):
        return None
    return fields


def _has_magic(view: memoryview, position: int, codec: int, rules: ProduceRules) -> bool:
    """Whether the records are compressed as the header says, in a codec that is allowed."""
    first = bytes(view[position + HEADER_SIZE : position + HEADER_SIZE + 4])
    return has_codec_magic(codec, first) and (codec != ZSTD or rules.allows_zstd)

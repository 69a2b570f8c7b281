"""Which batches of a fetch response have records for a consumer.

Control batches have none, nor have those of aborted transactions. With READ_COMMITTED the broker
lists the aborted transactions in its response, which still contains their batches.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import MAGIC, BatchHeader
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.types import Buffer
    from kraftlog.wire.messages.fetch import PartitionData

#: Isolation levels of a fetch.
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
#: Where a batch has its format, as messages of older formats do.
_MAGIC_POSITION = 16


def fetched_batches(result: PartitionData) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Yield position and header of each complete batch, and whether it has records to return."""
    aborted = sorted(
        (each.first_offset, each.producer_id) for each in result.aborted_transactions or ()
    )
    aborting: set[int] = set()
    data = result.records or b""
    end = 0
    for position, fields in walk(data, may_end_in_batch=True):
        header = BatchHeader(*fields)
        end = position + header.size
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        is_aborted = header.is_transactional and header.producer_id in aborting
        if header.is_control and is_aborted and _is_abort(data, position):
            aborting.discard(header.producer_id)
        yield position, header, not (header.is_control or is_aborted)
    # A message of before Kafka 0.11 may be shorter than a header, and is no incomplete batch.
    if len(data) - end > _MAGIC_POSITION and data[end + _MAGIC_POSITION] != MAGIC:
        raise CorruptBatchError(
            f"record format {data[end + _MAGIC_POSITION]}, not {MAGIC}", position=end
        )


def _is_abort(data: Buffer, position: int) -> bool:
    return any(
        decode_control_key(record.key) == ControlType.ABORT
        for record in read_records(data, position)
    )

"""Which batches of a fetch response have records for a consumer.

Control batches have none, nor have those of aborted transactions. With READ_COMMITTED the broker
lists the aborted transactions in its response, which still contains their batches.
"""

from __future__ import annotations

from kraftlog.records.control import decode_control_key
from kraftlog.records.header import BatchHeader
from kraftlog.records.old_formats import in_current_format
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


def fetched_batches(
    result: PartitionData,
) -> tuple[Buffer, Iterator[tuple[int, BatchHeader, bool]]]:
    """Return the response's batches, and of each complete one: position, header, has_records.

    `has_records` is whether a consumer gets its records. Messages of before Kafka 0.11 are
    converted to batches.
    """
    data = in_current_format(result.records or b"")
    return data, _classified(data, result)


def _classified(data: Buffer, result: PartitionData) -> Iterator[tuple[int, BatchHeader, bool]]:
    aborted = sorted(
        (each.first_offset, each.producer_id) for each in result.aborted_transactions or ()
    )
    aborting: set[int] = set()
    for position, fields in walk(data, may_end_in_batch=True):
        header = BatchHeader(*fields)
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        is_aborted = header.is_transactional and header.producer_id in aborting
        if header.is_control and is_aborted and _is_abort(data, position):
            aborting.discard(header.producer_id)
        yield position, header, not (header.is_control or is_aborted)


def _is_abort(data: Buffer, position: int) -> bool:
    return any(
        decode_control_key(record.key) == ControlType.ABORT
        for record in read_records(data, position)
    )

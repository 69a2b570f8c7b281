"""Metadata snapshots as bytes: Kafka's header, the voters, the records and Kafka's footer.

`snapshot_pieces` writes one, `check_snapshot` validates one.
"""

from __future__ import annotations

from itertools import islice

from kraftlog.errors import CorruptBatchError
from kraftlog.logstate.quorum_records import snapshot_beginning, snapshot_end
from kraftlog.metadata.versions import record_version
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import BatchHeader
from kraftlog.records.reader import check_crc, read_records
from kraftlog.records.walk import walk
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import encode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.types import Buffer
    from kraftlog.wire.schema import Message

#: Records per batch: requests wait while a batch is built.
RECORDS_IN_BATCH = 500


def snapshot_pieces(
    records: Iterable[Message], voters: VoterSet, epoch: int, written_ms: int
) -> Iterator[bytes]:
    """The bytes, one batch at a time.

    `written_ms`: the time now, which also stands for the timestamp of the last contained record.
    """
    beginning, offset = snapshot_beginning(voters, epoch, written_ms, contained_ms=written_ms)
    yield beginning
    remaining = iter(records)
    while chunk := list(islice(remaining, RECORDS_IN_BATCH)):
        builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
        for record in chunk:
            builder.append(written_ms, None, encode_metadata(record, record_version(record)))
        offset = builder.next_offset
        yield builder.build()
    yield snapshot_end(offset, epoch, written_ms)


def check_snapshot(data: Buffer) -> None:
    """Raise CorruptBatchError unless this is a complete snapshot (Q38).

    It begins with the header and ends with the footer; the batches between are valid and have no
    gaps.
    """
    view = memoryview(data)
    end, last = 0, -1
    for position, fields in walk(view):
        header = BatchHeader(*fields)
        batch = view[position : position + header.size]
        check_crc(batch, header)
        if header.base_offset != end:
            raise CorruptBatchError(f"no batch at offset {end}", position=position)
        if last == ControlType.SNAPSHOT_FOOTER:
            raise CorruptBatchError("a batch after the footer", position=position)
        first, last = _control_types(batch) if header.is_control else (-1, -1)
        if (first == ControlType.SNAPSHOT_HEADER) != (not end):
            raise CorruptBatchError("no header at the start, or a second one", position=position)
        end = header.next_offset
    if last != ControlType.SNAPSHOT_FOOTER:
        raise CorruptBatchError("no footer at the end", position=len(view))


def _control_types(batch: Buffer) -> tuple[int, int]:
    """The types of the first and the last record of a control batch."""
    types = [decode_control_key(record.key) for record in read_records(batch)]
    return (types[0], types[-1]) if types else (-1, -1)

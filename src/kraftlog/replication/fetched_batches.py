"""Checks the batches that a follower has fetched, and splits them by leader epoch."""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptBatchError
from kraftlog.records.crc import crc32c
from kraftlog.records.header import (
    CONTROL_BIT,
    CRC_START,
    LENGTH_OVERHEAD,
    NO_PRODUCER_ID,
    BatchHeader,
)
from kraftlog.records.walk import walk
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.types import Buffer


_OFFSET = struct.Struct(">q")


class FetchedRun:
    """Consecutive batches of one leader epoch, and their description for the log."""

    __slots__ = (
        "base",
        "control",
        "end",
        "epoch",
        "idempotent",
        "max_timestamp",
        "max_timestamp_offset",
        "records",
    )

    def __init__(self, base: int, epoch: int) -> None:
        self.base = self.end = base
        self.epoch = epoch
        self.records = memoryview(b"")
        self.max_timestamp = self.max_timestamp_offset = -1
        #: The headers of batches with a producer id.
        self.idempotent: list[BatchHeader] = []
        #: The control batches among them, by base offset.
        self.control: dict[int, memoryview] = {}


def first_offset(records: Buffer) -> int:
    """The base offset of the first batch; -1 if fewer bytes than that field were fetched."""
    if len(records) < _OFFSET.size:
        return -1
    offset: int = _OFFSET.unpack_from(records)[0]
    return offset


def check_fetched(
    records: Buffer, end: int, leader_epoch: int
) -> tuple[list[FetchedRun], CorruptBatchError | None]:
    """The valid batches at the front, as runs, and the error in the first invalid one, if any.

    In valid batches, offsets start at `end` or above and grow, with gaps in a compacted log; epochs
    never decrease, nor exceed the leader's; checksums are right. A batch cut off at the end is not
    an error.
    """
    view = memoryview(records)
    runs: list[FetchedRun] = []
    run: FetchedRun | None = None
    start = 0
    try:
        for position, fields in walk(view, may_end_in_batch=True):
            base, length, epoch, _, crc, attributes, delta, _, timestamp, producer_id = fields[:10]
            stop = position + LENGTH_OVERHEAD + length
            _check(view, position, stop, base, epoch, crc, end, leader_epoch)
            if run is None or epoch != run.epoch:
                if run is not None and epoch < run.epoch:
                    raise CorruptBatchError(f"epoch {epoch} after {run.epoch}", position=position)
                run, start = FetchedRun(base, epoch), position
                runs.append(run)
            run.end = base + delta + 1
            run.records = view[start:stop]
            if timestamp > run.max_timestamp:
                run.max_timestamp, run.max_timestamp_offset = timestamp, base + delta
            if producer_id != NO_PRODUCER_ID:
                run.idempotent.append(BatchHeader(*fields))
                if attributes & CONTROL_BIT:
                    run.control[base] = view[position:stop]
    except CorruptBatchError as error:
        return runs, error
    return runs, None


def _check(
    view: memoryview,
    position: int,
    stop: int,
    base: int,
    epoch: int,
    crc: int,
    end: int,
    leader_epoch: int,
) -> None:
    if base < end:
        raise CorruptBatchError(f"offset {base}, where {end} is next", position=position)
    if not 0 <= epoch <= leader_epoch:
        why = f"a batch of epoch {epoch} from the leader of epoch {leader_epoch}"
        raise CorruptBatchError(why, position=position)
    if crc32c(view[position + CRC_START : stop]) != crc:
        raise CorruptBatchError(f"wrong checksum of the batch at offset {base}", position=position)

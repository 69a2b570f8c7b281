"""`Log`: the log of a broker in memory, with the interface of the product's `LogReader`.

Each batch has one record, so a batch's offset is its position. The product's `EpochCache` has the
epochs.
"""

from __future__ import annotations

from kraftlog.logstate.epochs import EpochCache
from kraftlog.records.header import LENGTH_OVERHEAD, read_header
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.replication.partition import PartitionAppend
    from kraftlog.types import LogName, Uuid


class Log:
    """The batches of a topic, with their epochs, and the stored high watermark."""

    def __init__(self, batches: Iterable[bytes] = ()) -> None:
        self.begin(NULL_UUID)
        self.extend(batches)

    def begin(self, topic_id: Uuid) -> None:
        """Begin an empty log of a topic, or of none; the previous log is deleted."""
        self.topic_id = topic_id
        self.batches: tuple[bytes, ...] = ()
        self.epochs = EpochCache()
        #: A lower bound of the high watermark, stored from time to time (V15).
        self.stored_high_watermark = 0

    @property
    def end(self) -> int:
        return len(self.batches)

    def of(self, topic_id: Uuid) -> tuple[bytes, ...]:
        """The batches if the log is that of this topic, otherwise none."""
        return self.batches if topic_id == self.topic_id else ()

    def extend(self, batches: Iterable[bytes]) -> None:
        for batch in batches:
            header = read_header(batch)
            assert (header.base_offset, header.next_offset) == (self.end, self.end + 1), header
            self.epochs.assign(header.leader_epoch, header.base_offset)
            self.batches = (*self.batches, batch)

    def append(self, append: PartitionAppend) -> None:
        """Write the appends of a turn."""
        assert append.partition.topic_id == self.topic_id, "the log of another topic"
        self.extend(split(b"".join(append.buffers)))

    def truncate(self, end: int) -> None:
        self.batches = self.batches[:end]
        self.epochs.truncate_from_end(end)

    # The product's LogReader, as far as it is used -----------------------------------------------

    def locate(
        self, _: LogName, offset: int, limit: int, _max_bytes: int, _at_least_one: bool
    ) -> bytes | None:
        return b"".join(self.batches[offset:limit]) or None

    def end_of_epoch(self, _: LogName, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(min(epoch, self.epochs.latest), self.end)

    def latest_epoch(self, _: LogName) -> int:
        return self.epochs.latest

    def producers(self, _: LogName) -> None:
        """No batch has a producer id."""


def split(records: bytes) -> Sequence[bytes]:
    """The batches, one by one."""
    batches = []
    while records:
        size = LENGTH_OVERHEAD + int.from_bytes(records[8:12], "big")
        batches.append(records[:size])
        records = records[size:]
    return batches


def epoch_of(batch: bytes) -> int:
    return int.from_bytes(batch[12:16], "big")


def topic_of(batch: bytes) -> Uuid:
    """The topic to which a batch's record was produced: the record's value, before its headers."""
    return batch[-17:-1]


def epochs_text(batches: Iterable[bytes]) -> str:
    """The epochs of the batches in order."""
    return f"[{' '.join([str(epoch_of(batch)) for batch in batches])}]"

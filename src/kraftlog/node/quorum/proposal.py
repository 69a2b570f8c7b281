"""`Proposal`: records for the metadata log, encoded and read back.

Records enter the log only as a Proposal, and creating one has no effects. It has what every node
will replay: the records as decoded from their bytes, not as they were decided.
"""

from __future__ import annotations

import struct
from operator import attrgetter

from kraftlog.metadata.versions import record_version
from kraftlog.records.builder import BatchBuilder
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from kraftlog.wire.record_frames import metadata_read_back

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import Any

    from kraftlog.wire.schema import Message

#: The bytes in a PartitionChangeRecord that name its partition, their limits, and the other
#: fields.
_PARTITION = struct.Struct(">i16s")
UUID_SIZE, MAX_INDEX = 16, (1 << 31) - 1
_OTHER_FIELDS = tuple(
    [name for name in PartitionChangeRecord._fields if name not in {"partition_id", "topic_id"}]
)
_other_values = attrgetter(*_OTHER_FIELDS)
#: Proposals of a turn become one batch up to this size.
BATCH_BYTES = 64 << 10
#: Costs in microseconds: encoding a record and reading it back, and adding it to a batch.
ENCODE_COST, BUILD_COST = 8, 2
#: The same for a PartitionChangeRecord: most of those in a decision are alike.
ALIKE_COST = 2


class Proposal:
    """Records for one batch; `values` are the bytes of `records`."""

    __slots__ = ("batch", "records", "size_bytes", "values")

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.records: list[Message] = []
        self.size_bytes = 0
        #: The batch of a large proposal, built in steps; None if others may join its batch.
        self.batch: BatchBuilder | None = None

    @classmethod
    def make_in_steps(
        cls, records: Iterable[Message], timestamp_ms: int
    ) -> Generator[int, None, Proposal]:
        """Encode records and read them back, in steps; raises UnwritableError."""
        proposal = cls()
        alike = _AlikeChanges()
        for record in records:
            if type(record) is PartitionChangeRecord:
                value, read = alike.read_back(record)
                cost = ALIKE_COST
            else:
                cost = ENCODE_COST
                value, read = metadata_read_back(record, record_version(record))
            proposal.values.append(value)
            proposal.records.append(read)
            proposal.size_bytes += len(value)
            yield cost
        if proposal.size_bytes > BATCH_BYTES:
            builder = BatchBuilder()
            for value in proposal.values:
                builder.append(timestamp_ms, None, value)
                yield BUILD_COST
            proposal.batch = builder
        return proposal

    def __len__(self) -> int:
        return len(self.values)


class _AlikeChanges:
    """Encodes changes of partitions: thousands of one decision differ only in the partition.

    The first of its kind is encoded and read back; the others get its bytes with their partition.
    """

    def __init__(self) -> None:
        #: By the fields other than the partition: the bytes before and after it, and the fields.
        self._encoded: dict[tuple[Any, ...], tuple[bytes, bytes, dict[str, Any]]] = {}

    def read_back(self, record: PartitionChangeRecord) -> tuple[bytes, Message]:
        index, topic_id = record.partition_id, record.topic_id
        kind = _other_values(record)
        try:
            encoded = self._encoded.get(kind)
        except TypeError:  # a field is a list, which cannot be in a key
            return metadata_read_back(record, record_version(record))
        if encoded is None or not 0 <= index <= MAX_INDEX or len(topic_id) != UUID_SIZE:
            value, read = metadata_read_back(record, record_version(record))
            head, separator, tail = value.partition(_PARTITION.pack(index, topic_id))
            if separator:
                fields = {name: getattr(read, name) for name in _OTHER_FIELDS}
                self._encoded[kind] = head, tail, fields
            return value, read
        head, tail, fields = encoded
        value = head + _PARTITION.pack(index, topic_id) + tail
        return value, PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)

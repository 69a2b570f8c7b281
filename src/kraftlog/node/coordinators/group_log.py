"""The batches of the offsets topic: how shards write and replay them."""

from __future__ import annotations

from kraftlog.groups.stored_state import NO_PRODUCER
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import BatchHeader
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.shard import GroupShard
    from kraftlog.types import Buffer, Now

#: Whether a transaction with this end marker is committed.
_ENDS = {ControlType.ABORT: False, ControlType.COMMIT: True}


def batch_of(records: Sequence[tuple[bytes, bytes | None]], now: Now) -> bytearray:
    """The records as one batch, to which the partition assigns offsets."""
    builder = BatchBuilder()
    for key, value in records:
        builder.append(now.wall_ms, key, value)
    return bytearray(builder.build())


def replay(shard: GroupShard, batches: Buffer, now: Now) -> int:
    """Replay batches into a shard; returns the next offset, or 0 without batches.

    Offsets of a transaction are pending until its end marker.
    """
    next_offset = 0
    for position, fields in walk(batches):
        header = BatchHeader(*fields)
        records = read_records(batches, position)
        if header.is_control:
            for record in records:
                is_committed = _ENDS.get(decode_control_key(record.key))
                if is_committed is not None:
                    shard.end_transaction(header.producer_id, is_committed, now)
        else:
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
            shard.replay_batch(
                [(record.offset, record.key or b"", record.value) for record in records],
                producer_id,
            )
        next_offset = header.next_offset
    return next_offset

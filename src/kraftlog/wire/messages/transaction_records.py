"""The records of the transaction coordinator in `__transaction_state`."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class TransactionLogKey(Message, versions=(0, 0)):
    transactional_id: str = string()


class PartitionsSchema(Message):
    topic: str = string()
    partition_ids: Sequence[int] = array("int32")


class TransactionLogValue(Message, versions=(0, 1), flexible=1):
    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, tag=0, default=-1)
    next_producer_id: int = int64(since=1, tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(since=1, tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: Sequence[PartitionsSchema] | None = array(
        PartitionsSchema, nullable=True
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, tag=2, default=0)

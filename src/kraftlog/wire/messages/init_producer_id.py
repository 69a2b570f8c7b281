"""InitProducerId: a producer id and epoch for an idempotent or transactional producer."""

from __future__ import annotations

from kraftlog.wire.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, versions=(0, 6), flexible=2):
    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)
    enable2_pc: bool = boolean(since=6, default=False)
    keep_prepared_txn: bool = boolean(since=6, default=False)


class InitProducerIdResponse(Message, versions=(0, 6), flexible=2):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(since=6, default=-1)
    ongoing_txn_producer_epoch: int = int16(since=6, default=-1)

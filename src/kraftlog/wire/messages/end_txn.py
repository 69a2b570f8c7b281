"""EndTxn: commit or abort a transaction."""

from __future__ import annotations

from kraftlog.wire.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, versions=(0, 5), flexible=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, versions=(0, 5), flexible=3):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1, ignorable=True)
    producer_epoch: int = int16(since=5, default=-1, ignorable=True)

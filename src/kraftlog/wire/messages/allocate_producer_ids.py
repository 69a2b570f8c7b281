"""AllocateProducerIds: a broker gets a block of producer ids from the controller."""

from __future__ import annotations

from kraftlog.wire.schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, versions=(0, 0), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()

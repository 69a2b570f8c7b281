"""Transaction markers, as a coordinator writes them: kraftlog only reads them."""

from __future__ import annotations

import struct

from kraftlog.records.builder import NO_LEADER_EPOCH, BatchBuilder
from kraftlog.records.control import encode_control_key
from kraftlog.types import ControlType


def build_end_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the marker that ends a producer's transaction in one partition."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    key = encode_control_key(ControlType.COMMIT if commit else ControlType.ABORT)
    builder.append(timestamp_ms, key, struct.pack(">hi", 0, coordinator_epoch))
    return builder.build()

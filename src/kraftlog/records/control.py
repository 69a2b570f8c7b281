"""Control batches: records for brokers and clients, which applications do not see.

A control record's key is (version, type). The value of a transaction marker (ABORT, COMMIT) has a
fixed format, defined here; those of the other types are messages, defined in `wire.messages`.
"""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptBatchError
from kraftlog.records.builder import BatchBuilder
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The names that Kafka's tools print.
NAMES = tuple([name for name, kind in vars(ControlType).items() if isinstance(kind, int)])

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")


def control_name(control_type: int) -> str:
    """The name of a type. A later Kafka's type is no error: readers skip it."""
    return NAMES[control_type] if 0 <= control_type < len(NAMES) else "UNKNOWN"


def encode_control_key(control_type: int) -> bytes:
    return _KEY.pack(0, control_type)


def _hex(data: bytes | None) -> str:
    return "null" if data is None else f"0x{bytes(data).hex()}"


def decode_control_key(key: bytes | None) -> int:
    """Decode the type. Extra bytes are no error, as later versions may add fields."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError(f"{_hex(key)} is not the key of a control record")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"version {version} of a control record's key")
    return int(control_type)


def decode_end_marker(value: bytes | None) -> int:
    """Decode the epoch of the coordinator that ended the transaction."""
    if value is None or len(value) < _MARKER.size:
        raise CorruptBatchError(f"{_hex(value)} is not the value of an end-of-transaction record")
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise CorruptBatchError(f"version {version} of an end-of-transaction record")
    return int(coordinator_epoch)


def build_control_batch(
    records: Iterable[tuple[int, bytes]],
    *,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
) -> bytes:
    """Build a quorum leader's batch of (type, value) pairs."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)
    for control_type, value in records:
        builder.append(timestamp_ms, encode_control_key(control_type), value)
    return builder.build()

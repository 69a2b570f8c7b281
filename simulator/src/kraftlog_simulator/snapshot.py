"""The snapshots of the simulated state machine, as bytes: state, voters, and a checksum.

The state is the chain of everything applied (see `checkers/oracle`), so it differs if a record was
skipped, replaced, or applied twice.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from kraftlog.logstate.quorum_records import voters_from_record, voters_record
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.logstate.voters import VoterSet

#: Replica id, end offset and epoch, state, and the length of the voters record that follows.
_HEAD = Struct(">bqiqi")
_CHECKSUM = Struct(">I")


class Snapshot(Value):
    """Everything before `id.offset`, as a state and its bytes."""

    id: OffsetAndEpoch
    state: int
    voters: VoterSet
    data: bytes


def encode_snapshot(end: OffsetAndEpoch, state: int, voters: VoterSet, replica_id: int) -> Snapshot:
    """Encode a snapshot; no two replicas write the same bytes, so that a mixture is detected."""
    record = voters_record(voters)
    head = _HEAD.pack(replica_id, end.offset, end.epoch, state, len(record))
    body = head + record + bytes([replica_id]) * (replica_id * 37 + end.offset % 200)
    return Snapshot(end, state, voters, body + _CHECKSUM.pack(crc32(body)))


def decode_snapshot(data: bytes) -> Snapshot | None:
    """Decode a snapshot; None if it is corrupt."""
    body = data[: -_CHECKSUM.size]
    if len(data) < _HEAD.size or data[len(body) :] != _CHECKSUM.pack(crc32(body)):
        return None
    _, offset, epoch, state, length = _HEAD.unpack_from(body)
    record = body[_HEAD.size : _HEAD.size + length]
    return Snapshot(OffsetAndEpoch(offset, epoch), state, voters_from_record(record), data)

"""The snapshots of a toy state machine, as bytes: its state, the voters, and a checksum.

The state is the chain of everything that was applied (see `oracle`): a machine that skipped a
record, saw one twice or took another's has another state.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from kraftlog.logstate.quorum_records import voters_from_record, voters_record
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.logstate.voters import VoterSet

#: Who wrote it, end offset and epoch, the state, the length of the record of voters that follows.
_HEAD = Struct(">bqiqi")
_CHECKSUM = Struct(">I")


class Snapshot(Value):
    """Everything before `id.offset`, as a state and its bytes."""

    id: OffsetAndEpoch
    state: int
    voters: VoterSet
    data: bytes


def write_down(end: OffsetAndEpoch, state: int, voters: VoterSet, taker: int) -> Snapshot:
    """No two replicas write the same bytes, so that a mixture of two is noticed."""
    record = voters_record(voters)
    head = _HEAD.pack(taker, end.offset, end.epoch, state, len(record))
    body = head + record + bytes([taker]) * (taker * 37 + end.offset % 200)
    return Snapshot(end, state, voters, body + _CHECKSUM.pack(crc32(body)))


def read_back(data: bytes) -> Snapshot | None:
    """None if these are not the bytes that were written."""
    body = data[: -_CHECKSUM.size]
    if len(data) < _HEAD.size or data[len(body) :] != _CHECKSUM.pack(crc32(body)):
        return None
    _, offset, epoch, state, length = _HEAD.unpack_from(body)
    record = body[_HEAD.size : _HEAD.size + length]
    return Snapshot(OffsetAndEpoch(offset, epoch), state, voters_from_record(record), data)

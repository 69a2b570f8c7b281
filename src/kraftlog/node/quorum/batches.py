"""Batches of the metadata log: their summaries for the raft core, and control batches.

The core of a leader appends LeaderChange and voter sets as values; here they become Kafka's control
records, and a follower reads them back.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, InternalError, KraftlogError, UnreplayableError
from kraftlog.logstate.quorum_records import (
    kraft_version_record,
    voters_from_record,
    voters_record,
)
from kraftlog.metadata.image import ReplayError, UnreplayableRecordError
from kraftlog.metadata.unsupported_levels import UnsupportedLevelError
from kraftlog.raft.messages import Batch, LeaderChange
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import build_control_batch, decode_control_key
from kraftlog.records.header import CONTROL_BIT, LENGTH_OVERHEAD, BatchHeader
from kraftlog.records.reader import check_crc, read_records
from kraftlog.records.walk import walk
from kraftlog.types import METADATA_TOPIC, ControlType
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import encode
from kraftlog.wire.messages import control_records as control
from kraftlog.wire.record_frames import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.types import Buffer, OffsetAndEpoch
    from kraftlog.wire.schema import Message

METADATA_LOG = METADATA_TOPIC, 0
#: Kafka always reads a LeaderChange record as this version.
LEADER_CHANGE_VERSION = 0


def summaries(data: Buffer) -> Iterator[Batch]:
    """The valid batches of a fetch response, up to a corrupt or incomplete one."""
    view = memoryview(data)
    try:
        for position, fields in walk(view, may_end_in_batch=True):
            base_offset, length, epoch, _, _, attributes, last_delta = fields[:7]
            size = length + LENGTH_OVERHEAD
            batch = view[position : position + size]
            check_crc(batch, BatchHeader(*fields))
            yield Batch(
                base_offset=base_offset,
                last_offset=base_offset + last_delta,
                epoch=epoch,
                size_bytes=size,
                voters=voters_in(batch) if attributes & CONTROL_BIT else None,
                payload=batch,
            )
    except CorruptBatchError:
        return  # the follower fetches again from the end of the valid batches


def end_of(data: Buffer) -> int:
    """The end offset of complete batches."""
    end = 0
    for _, fields in walk(memoryview(data)):
        end = BatchHeader(*fields).next_offset
    return end


def records_batch(values: Sequence[bytes], timestamp_ms: int) -> bytearray:
    """Encoded metadata records as one batch; the core assigns its offset."""
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp_ms, None, value)
    return bytearray(builder.build())


def records_in(data: Buffer) -> Iterator[Message]:
    """The metadata records of complete batches, without control records."""
    view = memoryview(data)
    for position, fields in walk(view):
        if fields[5] & CONTROL_BIT:
            continue
        for record in read_records(view, position):
            assert record.value is not None, f"record {record.offset} of the metadata is empty"
            yield decode_metadata(record.value)[0]


def unreplayable(
    batches: Sequence[Buffer], records: Sequence[Message], error: Exception
) -> UnreplayableError:
    """The error for `batches` that can't be replayed.

    `records` are the records of the batches, up to the first that can't be decoded.
    """
    failed_index = len(records)
    if isinstance(error, ReplayError):
        indexes = (index for index, record in enumerate(records) if record is error.record)
        failed_index = next(indexes, failed_index)
    offset = _offset_of(batches, failed_index)
    name = f"{METADATA_LOG[0]}-{METADATA_LOG[1]}"
    why = _reason(error)
    if isinstance(error, UnsupportedLevelError):
        return UnreplayableError(f"{name}: at offset {offset}, {why}")
    return UnreplayableError(
        f"{name}: the committed record at offset {offset} can't be replayed, so this version "
        "of kraftlog cannot run on this log. Start a version that knows the record; if there is "
        "none, kraftlog quorum repair --drop-from drops the record and all that follow it "
        f"(docs/operate/lost-majority.md). {why}"
    )


def unreplayable_snapshot(
    snapshot_id: OffsetAndEpoch | None, error: Exception
) -> UnreplayableError:
    """The error for a snapshot whose records can't be replayed."""
    why = _reason(error)
    place = ""
    if snapshot_id is not None:
        place = f" at offset {snapshot_id.offset}, epoch {snapshot_id.epoch},"
    if isinstance(error, UnsupportedLevelError):
        return UnreplayableError(
            f"{METADATA_LOG[0]}-{METADATA_LOG[1]}: in the snapshot{place} {why}"
        )
    return UnreplayableError(
        f"{METADATA_LOG[0]}-{METADATA_LOG[1]}: the snapshot{place} can't be replayed, so this "
        "version of kraftlog cannot run on this log. Start a version that knows its records "
        f"(docs/operate/lost-majority.md). {why}"
    )


def _reason(error: Exception) -> str:
    """The message of an expected error; any other is described as an internal error."""
    is_expected = isinstance(error, (ReplayError, UnreplayableRecordError, KraftlogError))
    return str(error if is_expected else InternalError("replaying it", error))


def _offset_of(batches: Sequence[Buffer], index: int) -> int:
    """The offset of the data record with this index, else the base offset of the first batch."""
    first = -1
    for data in batches:
        for _, fields in walk(memoryview(data)):
            first = fields[0] if first < 0 else first
            if fields[5] & CONTROL_BIT:
                continue
            count = BatchHeader(*fields).record_count
            if index < count:
                return fields[0] + index
            index -= count
    return first


def snapshot_voters(data: Buffer) -> VoterSet | None:
    """The voter set in a snapshot."""
    voters = None
    for batch in summaries(data):
        voters = batch.voters or voters
    return voters


def voters_in(batch: Buffer) -> VoterSet | None:
    """The last voter set among the records of a control batch."""
    voters = None
    for record in read_records(batch):
        if decode_control_key(record.key) == ControlType.KRAFT_VOTERS and record.value is not None:
            voters = voters_from_record(record.value)
    return voters


def control_batch(batch: Batch, timestamp_ms: int) -> bytes:
    """The control batch for records that the core of a leader has appended."""
    records = []
    payload = batch.payload
    if isinstance(payload, LeaderChange):
        records.append(
            (ControlType.LEADER_CHANGE, encode(_leader_change(payload), LEADER_CHANGE_VERSION))
        )
    if batch.voters is not None:
        count = batch.last_offset - batch.base_offset + 1
        if count > len(records) + 1:  # `raft.changes` has counted a change of kraft.version, too
            records.append(
                (ControlType.KRAFT_VERSION, kraft_version_record(batch.voters.kraft_version))
            )
        records.append((ControlType.KRAFT_VOTERS, voters_record(batch.voters)))
    return build_control_batch(
        records,
        base_offset=batch.base_offset,
        leader_epoch=batch.epoch,
        timestamp_ms=timestamp_ms,
    )


def _leader_change(change: LeaderChange) -> control.LeaderChangeMessage:
    return control.LeaderChangeMessage(
        version=LEADER_CHANGE_VERSION,
        leader_id=change.leader_id,
        voters=[control.Voter(voter_id=voter_id) for voter_id in change.voter_ids],
        granting_voters=[control.Voter(voter_id=voter_id) for voter_id in change.granting_ids],
    )

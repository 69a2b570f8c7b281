"""A snapshot of the metadata as bytes: Kafka's header, the voters, the records, Kafka's footer."""

from __future__ import annotations

from itertools import islice

from kraftlog.metadata.versions import record_version
from kraftlog.node.quorum.batches import voters_record
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import build_control_batch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import control_records as control
from kraftlog.wire.record_frames import ControlType, encode_control, encode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.wire.schema import Message

#: So many are made in one go, beside which requests wait.
RECORDS_IN_BATCH = 500
#: The version of the quorum's protocol in which voters may change.
KRAFT_VERSION = 1


def snapshot_pieces(
    records: Iterable[Message], voters: VoterSet, epoch: int, written_ms: int
) -> Iterator[bytes]:
    """The bytes, a batch at a time. `written_ms`: of the last record that is in it."""
    beginning: list[tuple[int, bytes]] = [
        _control(
            ControlType.SNAPSHOT_HEADER,
            control.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=written_ms),
        )
    ]
    if voters.voters and all(any(voter.key.directory_id) for voter in voters.voters):
        level = control.KRaftVersionRecord(version=0, k_raft_version=KRAFT_VERSION)
        beginning.append(_control(ControlType.KRAFT_VERSION, level))
        beginning.append((ControlType.KRAFT_VOTERS, voters_record(voters)))
    yield _control_batch(beginning, 0, epoch, written_ms)
    offset = len(beginning)
    left = iter(records)
    while some := list(islice(left, RECORDS_IN_BATCH)):
        builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
        for record in some:
            builder.append(written_ms, None, encode_metadata(record, record_version(record)))
        offset = builder.next_offset
        yield builder.build()
    footer = _control(ControlType.SNAPSHOT_FOOTER, control.SnapshotFooterRecord(version=0))
    yield _control_batch([footer], offset, epoch, written_ms)


def _control(kind: int, message: Message) -> tuple[int, bytes]:
    return kind, encode_control(kind, message)[1]


def _control_batch(
    records: list[tuple[int, bytes]], offset: int, epoch: int, written_ms: int
) -> bytes:
    return build_control_batch(
        records, base_offset=offset, leader_epoch=epoch, timestamp_ms=written_ms
    )

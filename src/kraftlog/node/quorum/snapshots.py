"""A snapshot of the metadata as bytes: Kafka's header, the voters, the records, Kafka's footer."""

from __future__ import annotations

from itertools import islice

from kraftlog.logstate.quorum_records import snapshot_beginning, snapshot_end
from kraftlog.metadata.versions import record_version
from kraftlog.records.builder import BatchBuilder
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import encode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.wire.schema import Message

#: So many are made in one go, beside which requests wait.
RECORDS_IN_BATCH = 500


def snapshot_pieces(
    records: Iterable[Message], voters: VoterSet, epoch: int, written_ms: int
) -> Iterator[bytes]:
    """The bytes, a batch at a time. `written_ms`: of the last record that is in it."""
    beginning, offset = snapshot_beginning(voters, epoch, written_ms, contained_ms=written_ms)
    yield beginning
    left = iter(records)
    while some := list(islice(left, RECORDS_IN_BATCH)):
        builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
        for record in some:
            builder.append(written_ms, None, encode_metadata(record, record_version(record)))
        offset = builder.next_offset
        yield builder.build()
    yield snapshot_end(offset, epoch, written_ms)

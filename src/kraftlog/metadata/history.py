"""Past states of the cluster: the image at any offset of the metadata log, or at any time.

Reading starts at a snapshot or at offset 0, and replays the records of the log up to and including
an offset, or up to a time. Any source of a metadata log will do: a live cluster, a copied folder.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError, CorruptBatchError, CorruptLogError, KraftlogError
from kraftlog.logstate.quorum_records import voters_from_record
from kraftlog.metadata.image import Image, ReplayError, UnreplayableRecordError
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import BatchHeader
from kraftlog.records.reader import check_crc, read_records
from kraftlog.records.walk import walk
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.record_frames import decode_control, decode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.records.record import Record
    from kraftlog.types import Buffer, OffsetAndEpoch

    class MetadataLog(Protocol):
        """A source of a metadata log."""

        def snapshots(self) -> Sequence[OffsetAndEpoch]:
            """The snapshots, newest first."""

        def read_snapshot(self, snapshot: OffsetAndEpoch) -> Buffer: ...

        @property
        def start(self) -> int:
            """The first offset of the log."""

        def read(self, offset: int) -> Iterable[Buffer]:
            """Complete batches up to the high watermark; the first may begin before `offset`."""


class DeletedRecordsError(ConfigError):
    """Earlier states than that of the oldest snapshot: their records are deleted."""

    def __init__(self, oldest: int) -> None:
        super().__init__(
            f"the metadata log begins with a snapshot of the records before offset {oldest}: "
            "earlier states of the cluster cannot be read"
        )


class Moment(Value):
    """An offset or a time up to which records are replayed; with neither, the end of the log."""

    offset: int | None = None
    time_ms: int | None = None

    def includes(self, offset: int) -> bool:
        return self.offset is None or offset <= self.offset

    def includes_time(self, time_ms: int) -> bool:
        return self.time_ms is None or time_ms <= self.time_ms


class MetadataState:
    """The image and the voters as of `offset`, the last record that was replayed."""

    def __init__(self) -> None:
        self.image = Image()
        #: None if no record has them: the voters are those of the configuration.
        self.voters: VoterSet | None = None
        self.offset = -1
        self.epoch = -1
        #: The leader of the epoch; None if its LeaderChange record was not replayed.
        self.leader: int | None = None
        #: When the last replayed record, or the last one that a snapshot contains, was appended.
        self.time_ms = -1

    def load(self, data: Buffer, end: OffsetAndEpoch) -> None:
        """Replay a snapshot."""
        for position, fields in walk(data):
            header = BatchHeader(*fields)
            _check_crc(data, header, position)
            for record in read_records(data, position, with_crc=False):
                self._replay(record, header)
        if end.offset == 0:
            # Its records are what the first active controller may append to the log (KIP-1170).
            self.image = type(self.image)()
        self.offset, self.epoch = end.offset - 1, end.epoch

    def replay(self, data: Buffer, until: Moment) -> bool:
        """Replay batches that follow; return whether there may be more before `until`."""
        for position, fields in walk(data, may_end_in_batch=True):
            header = BatchHeader(*fields)
            if header.last_offset <= self.offset:
                continue
            if not (
                until.includes(header.base_offset) and until.includes_time(header.max_timestamp)
            ):
                return False
            for record in self._records(data, header, position):
                if not until.includes(record.offset):
                    return False
                if record.offset > self.offset:
                    self._check_next(record.offset)
                    self._replay(record, header)
                    self.offset, self.epoch = record.offset, header.leader_epoch
                    self.time_ms = record.timestamp_ms
        return until.offset is None or self.offset < until.offset

    def _records(self, data: Buffer, header: BatchHeader, position: int) -> list[Record]:
        try:
            return [*read_records(data, position)]
        except CorruptBatchError as error:
            held = f"the log holds up to offset {self.offset}" if self.offset >= 0 else "no record"
            raise CorruptLogError(
                f"the batch at offset {header.base_offset}: {error}; {held}"
            ) from error

    def _check_next(self, offset: int) -> None:
        if offset != self.offset + 1:
            raise CorruptLogError(
                f"the metadata log has no offset {self.offset + 1}; the next one is {offset}"
            )

    def _replay(self, record: Record, header: BatchHeader) -> None:
        if header.leader_epoch != self.epoch:
            self.leader = None
        try:
            if header.is_control:
                self._replay_control(record)
            elif record.value is not None:
                self.image.replay(decode_metadata(record.value)[0])
        except (ReplayError, UnreplayableRecordError, KraftlogError) as error:
            raise CorruptLogError(f"the record at offset {record.offset}: {error}") from error

    def _replay_control(self, record: Record) -> None:
        kind = decode_control_key(record.key)
        if record.value is None:
            return
        if kind == ControlType.KRAFT_VOTERS:
            self.voters = voters_from_record(record.value)
        elif kind == ControlType.LEADER_CHANGE:
            assert record.key is not None
            message = decode_control(record.key, record.value)[1]
            self.leader = getattr(message, "leader_id", None)
        elif kind == ControlType.SNAPSHOT_HEADER:
            self.time_ms = last_contained_ms(record)


def _check_crc(data: Buffer, header: BatchHeader, position: int) -> None:
    try:
        check_crc(data, header, position)
    except CorruptBatchError as error:
        raise CorruptLogError(f"the batch at offset {header.base_offset}: {error}") from error


def last_contained_ms(record: Record) -> int:
    """The time of the last record that a snapshot contains, from its first record."""
    assert record.key is not None
    assert record.value is not None
    header = decode_control(record.key, record.value)[1]
    time_ms: int = getattr(header, "last_contained_log_timestamp", -1)
    return time_ms


def state_at(log: MetadataLog, until: Moment) -> MetadataState:
    """The cluster as of a moment; raises ConfigError if the log does not reach it."""
    state = _initial_state(log, until)
    if until.offset is None or state.offset < until.offset:
        for data in log.read(state.offset + 1):
            if not state.replay(data, until):
                break
    if until.offset is not None and state.offset < until.offset:
        raise ConfigError(
            f"offset {until.offset} is not in the metadata log; its last one is {state.offset}"
        )
    return state


def _initial_state(log: MetadataLog, until: Moment) -> MetadataState:
    """The state of the newest snapshot before the moment; an empty one if the log begins at 0."""
    snapshots = [each for each in log.snapshots() if each.offset >= log.start]
    for snapshot in snapshots:  # the log continues none of those before its start
        if not until.includes(snapshot.offset - 1):
            continue
        state = MetadataState()
        data = log.read_snapshot(snapshot)
        if until.time_ms is not None:
            first = next(iter(read_records(data)), None)
            if first is None or not until.includes_time(last_contained_ms(first)):
                continue
        state.load(data, snapshot)
        return state
    if log.start > 0:
        raise DeletedRecordsError(min((each.offset for each in snapshots), default=log.start))
    return MetadataState()

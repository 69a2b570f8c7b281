"""A lane: the records of one replay in one partition of the target topic, in the order of offsets.

Any number of writers may work on a lane at the same time: attempts of a Spark task, tasks that
outlive their driver, a second driver. All of them use the lane's one producer id, and each batch
has the sequence number after that of the lane's last batch. The leader appends a batch only with
the next sequence number, so what a writer has read of the lane is still true when its batch is
appended. A writer that is late is refused, reads what the other one has written, and goes on.

So the log decides what is written. The consumer group `kraftlog-replay-…` keeps the producer id of
each lane, from before its first record on, and how far the log has been read
(docs/decisions/0023-lanes-of-a-replay.md).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kraftlog.client import groups, offsets
from kraftlog.client.produce_requests import SEQUENCES, new_identity
from kraftlog.client.range_reader import RangeReader
from kraftlog.errors import ConfigError
from kraftlog.records.header import NO_PRODUCER_ID
from kraftlog.records.reader import read_records
from kraftlog.types import uuid_text
from kraftlog.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import PartitionName
    from kraftlog.records.header import BatchHeader
    from kraftlog.records.record import Record

#: The header of a replayed record: its original topic, partition and offset, as JSON.
HEADER = "kraftlog.replay"
#: Without a group, an earlier replay is looked for in this many offsets at the end of a partition.
TAIL_OFFSETS = 100_000
#: The fields of a lane that the group keeps as metadata of its offset, which is the position.
_COMMITTED = ("producer_id", "epoch", "sequence", "next_offset")


class Replay(Value):
    """What continues when the same command is run again: its records and where they go."""

    #: The topic that is written to, and the one that the records were read from.
    target: str
    source: str
    #: Tells replays of a part of the records apart; empty for all records.
    selection: str = ""

    @property
    def group(self) -> str:
        return "-".join(["kraftlog-replay", self.source, *filter(None, [self.selection])])

    def header(self, partition: int, offset: int) -> dict[str, object]:
        """What the header of a record contains."""
        selection = {"selection": self.selection} if self.selection else {}
        return {"topic": self.source, "partition": partition, "offset": offset, **selection}

    def offset_of(self, record: Record, partition: int) -> int | None:
        """The original offset of a record; None unless this replay has written it."""
        for name, value in record.headers:
            if name == HEADER:
                try:
                    header = json.loads(value or b"")
                    offset = int(header["offset"])
                except (ValueError, KeyError, TypeError):
                    return None
                return offset if header == self.header(partition, offset) else None
        return None


class Lane(Value):
    """Where a lane ends, as far as a writer knows."""

    replay: Replay
    partition: int
    producer_id: int
    epoch: int
    #: The sequence number and the original offset that are next.
    sequence: int
    next_offset: int
    #: The log has been read up to this offset.
    position: int

    @property
    def name(self) -> PartitionName:
        return self.replay.target, self.partition

    def appended(self, count: int, last_offset: int, base_offset: int) -> Lane:
        """The lane after a batch of `count` records, the last of which had `last_offset`."""
        return self.replace(
            sequence=(self.sequence + count) % SEQUENCES,
            next_offset=last_offset + 1,
            position=max(self.position, base_offset + count),
        )


def caught_up(cluster: Cluster, lane: Lane) -> Lane:
    """The lane after what any writer has appended to it by now."""
    [end] = offsets.find(cluster, {lane.name: offsets.LATEST}).values()
    if end.offset <= lane.position:
        return lane
    return _read(cluster, lane, end.offset)


def _read(cluster: Cluster, lane: Lane, end: int, *, of_any_producer: bool = False) -> Lane:
    """Read the log up to `end`; return the lane after its last record there.

    If there is none, `of_any_producer` takes the last record of this replay for the lane's.
    """
    [earliest] = offsets.find(cluster, {lane.name: offsets.EARLIEST}).values()
    last: tuple[bytes, BatchHeader] | None = None
    has_own = False
    for fetched in RangeReader(cluster, lane.name, max(lane.position, earliest.offset), end):
        for start, header in fetched.batches:
            is_own = header.producer_id == lane.producer_id
            if header.base_offset < end and (is_own or (of_any_producer and not has_own)):
                first = next(read_records(fetched.data, start), None)
                if first and lane.replay.offset_of(first, lane.partition) is not None:
                    last = bytes(memoryview(fetched.data)[start : start + header.size]), header
                    has_own = is_own
    lane = lane.replace(position=end)
    if last is None:
        return lane
    *_, record = read_records(last[0])
    offset = lane.replay.offset_of(record, lane.partition)
    header = last[1]
    if offset is None or record.offset != header.last_offset:
        raise ConfigError(
            f"{lane.name[0]}-{lane.partition}: compaction has removed the last replayed record, so "
            "it is not known where to continue; --again starts from the beginning"
        )
    lane = lane.replace(next_offset=offset + 1)
    if header.producer_id == NO_PRODUCER_ID:
        return lane
    return lane.replace(
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        sequence=(header.last_sequence + 1) % SEQUENCES,
    )


# Where an earlier run ended --------------------------------------------------------------------


def find_lanes(
    cluster: Cluster, replay: Replay, indexes: Sequence[int], *, again: bool = False
) -> dict[int, Lane]:
    """The lanes of a replay in these partitions; new ones with `again`, or if it has none."""
    names = [(replay.target, index) for index in indexes]
    known = {} if again else groups.committed(cluster, replay.group, names)
    ends = offsets.find(cluster, dict.fromkeys(names, offsets.LATEST))
    topic_id = uuid_text(cluster.topic(replay.target).id)
    lanes: dict[int, Lane] = {}
    new_id: tuple[int, int] | None = None
    for name in names:
        index, end = name[1], ends[name].offset
        lane = _committed_lane(replay, index, known.get(name), topic_id)
        if lane is None:
            new_id = new_id or new_identity(cluster)
            position = end if again else max(0, end - TAIL_OFFSETS)
            lane = Lane(replay, index, *new_id, sequence=0, next_offset=0, position=position)
        # A new leader may not know yet that all of the lane is replicated.
        if lane.position < end:
            lane = _read(cluster, lane, end, of_any_producer=True)
        lanes[index] = lane
    return lanes


def _committed_lane(
    replay: Replay, index: int, committed: groups.GroupOffset | None, topic_id: str
) -> Lane | None:
    """The lane that the group has; None if it has none, or one of a deleted topic."""
    try:
        state = json.loads(committed.metadata) if committed is not None else {}
        if committed is None or state["topic_id"] != topic_id:
            return None
        numbers = [int(state[field]) for field in _COMMITTED]
    except (ValueError, KeyError, TypeError):
        return None
    return Lane(replay, index, *[*numbers, committed.offset])


def commit_lanes(cluster: Cluster, replay: Replay, lanes: Iterable[Lane]) -> None:
    """Let the group know the lanes, for later runs."""
    topic_id = uuid_text(cluster.topic(replay.target).id)
    by_name = {lane.name: lane for lane in lanes}
    metadata: Mapping[PartitionName, str] = {
        name: json.dumps(
            {"topic_id": topic_id, **{field: getattr(lane, field) for field in _COMMITTED}}
        )
        for name, lane in by_name.items()
    }
    positions = {name: lane.position for name, lane in by_name.items()}
    groups.commit(cluster, replay.group, positions, metadata=metadata)

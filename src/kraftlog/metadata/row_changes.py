"""Each change that the records of a metadata log make to the tables of `metadata.tables`.

Rows are compared only where a record has changed the image, so a change costs the same in a cluster
of any size. All changes up to an offset add up to the tables as of that offset.
"""

from __future__ import annotations

from kraftlog.metadata.history import DeletedRecordsError, MetadataState
from kraftlog.metadata.image import Image
from kraftlog.metadata.tables import (
    TABLES_OF_IMAGE,
    acl_rows,
    broker_rows,
    by_key,
    config_rows,
    feature_rows,
    partition_row,
    quota_rows,
    rows_of,
    scram_rows,
    token_rows,
    topic_row,
)
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import BatchHeader
from kraftlog.records.walk import walk
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.record_frames import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from kraftlog.metadata.history import MetadataLog, Moment
    from kraftlog.metadata.tables import Row
    from kraftlog.metadata.values import PartitionImage
    from kraftlog.records.record import Record
    from kraftlog.types import Uuid

    Rows = Mapping[tuple[Any, ...], Row]

#: The table of the quorum's leader, which has one row; the log's records say nothing else of it.
QUORUM = "quorum"
#: The kind of a record if its changes were read from a snapshot, not from the log.
SNAPSHOT = "Snapshot"
#: The types of control records whose changes are shown, by the names of their messages.
LEADER_CHANGE = "LeaderChange"
_CONTROL = {ControlType.LEADER_CHANGE: LEADER_CHANGE, ControlType.KRAFT_VOTERS: "KRaftVoters"}


class RowChange(Value):
    """A row of a table before and after a record: None if the row is new, or removed."""

    offset: int
    epoch: int
    time_ms: int
    #: The leader of the epoch; None if the part of the log that was read does not say it.
    leader: int | None
    #: The name of the record's type.
    record: str
    table: str
    key: tuple[Any, ...]
    before: Row | None
    after: Row | None


class _TrackedImage(Image):
    """Notes the entries of its maps that change, with their old values."""

    def __init__(self, image: Image) -> None:
        super().__init__()
        vars(self).update(vars(image))
        #: By the identity of a map and the key: the value before the first change; or None.
        self.touched: dict[tuple[int, Any], Any] = {}
        #: The names of all topics that there were, since a deleted one's partitions follow it.
        self.names = {topic.id: topic.name for topic in self.topics.values()}

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        self.touched.setdefault((id(mapping), key), mapping.get(key))
        if mapping is self.topics:
            self.names[key] = value.name
        super().put(mapping, key, value)

    def drop(self, mapping: dict[Any, Any], key: Any) -> None:
        self.touched.setdefault((id(mapping), key), mapping.get(key))
        super().drop(mapping, key)


class TrackedState(MetadataState):
    """Takes over a state and collects the changes that each further record makes to the tables."""

    def __init__(self, state: MetadataState) -> None:
        super().__init__()
        vars(self).update(vars(state))
        self.image: _TrackedImage = _TrackedImage(state.image)
        self._changes: list[RowChange] = []
        rows = by_key("topics", rows_of(state, "topics"))
        #: The rows of all topics by id.
        self._topics = {
            topic_id: rows[name,] for name, topic_id in sorted(self.image.topic_ids.items())
        }

    def take_changes(self) -> list[RowChange]:
        changes, self._changes = self._changes, []
        return changes

    def _replay(self, record: Record, header: BatchHeader) -> None:
        old_voters = self._voter_rows() if header.is_control else {}
        old_leader = self._leader_row(self.epoch)
        self.image.touched.clear()
        super()._replay(record, header)
        if record.value is None:
            return
        if header.is_control:
            name = _CONTROL.get(decode_control_key(record.key), "")
            changed = {"voters": (old_voters, self._voter_rows())}
            if name == LEADER_CHANGE:
                changed[QUORUM] = old_leader, self._leader_row(header.leader_epoch)
        else:
            name = type(decode_metadata(record.value)[0]).__name__
            changed = self._changed_rows()
        for table, (old, new) in changed.items():
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    where = record.offset, header.leader_epoch, record.timestamp_ms, self.leader
                    self._changes.append(
                        RowChange(*where, name, table, key, old.get(key), new.get(key))
                    )

    def _leader_row(self, epoch: int) -> Rows:
        return {(): {"leader": self.leader, "epoch": epoch}} if epoch >= 0 else {}

    def _voter_rows(self) -> Rows:
        return by_key("voters", rows_of(self, "voters"))

    def _changed_rows(self) -> dict[str, tuple[Rows, Rows]]:
        """The old and the new rows of what a record has touched, by table."""
        changed = self._topics_and_partitions()
        for name, rows in _ROWS.items():
            entries: dict[Any, Any] = getattr(self.image, name)
            touched = self._touched(entries)
            old = [row for item in touched.items() if item[1] is not None for row in rows(*item)]
            new = [row for key in touched if key in entries for row in rows(key, entries[key])]
            changed[name] = by_key(name, old), by_key(name, new)
        return changed

    def _touched(self, entries: Mapping[Any, Any]) -> dict[Any, Any]:
        """The old values of what a record has touched in a map; None if there was none."""
        return {
            key: before
            for (map_id, key), before in self.image.touched.items()
            if map_id == id(entries)
        }

    def _topics_and_partitions(self) -> dict[str, tuple[Rows, Rows]]:
        """As above; also keeps the rows of topics. Only partitions below the count are visible."""
        image, topics = self.image, self._topics
        by_topic: dict[Uuid, dict[int, PartitionImage | None]] = {
            topic_id: {} for topic_id in self._touched(image.topics)
        }
        for (topic_id, index), before in self._touched(image.partitions).items():
            by_topic.setdefault(topic_id, {})[index] = before
        old_topics, new_topics, old_parts, new_parts = [], [], [], []
        for topic_id, touched in by_topic.items():
            old_row, topic = topics.pop(topic_id, None), image.topics.get(topic_id)
            old_count = old_row["partitions"] if old_row else 0
            new_count = topic.partition_count if topic else 0
            for index in range(new_count, old_count):
                touched.setdefault(index, image.partitions.get((topic_id, index)))
            old = [each for each in touched.values() if each is not None]
            new = [
                image.partitions[topic_id, index]
                for index in touched
                if index < new_count and (topic_id, index) in image.partitions
            ]
            name = image.names[topic_id]
            old_parts += [partition_row(name, each) for each in old if each.index < old_count]
            new_parts += [partition_row(name, each) for each in new]
            if old_row is not None:
                old_topics.append(old_row)
            if topic is not None:
                sizes = {each.index: len(each.replicas) for each in new}
                most = old_row["replication"] if old_row else 0
                if any(sizes.get(each.index, 0) < len(each.replicas) == most for each in old):
                    most = max((len(p.replicas) for p in image.partitions_of(topic)), default=0)
                topics[topic_id] = topic_row(topic, max([most, *sizes.values()]))
                new_topics.append(topics[topic_id])
        return {
            "topics": (by_key("topics", old_topics), by_key("topics", new_topics)),
            "partitions": (by_key("partitions", old_parts), by_key("partitions", new_parts)),
        }


#: The rows of an entry of a map of the image; the maps have the names of the tables.
_ROWS: dict[str, Callable[[Any, Any], Iterator[Row]]] = {
    "brokers": broker_rows,
    "configs": config_rows,
    "features": feature_rows,
    "acls": acl_rows,
    "quotas": quota_rows,
    "scram": scram_rows,
    "tokens": token_rows,
}


def oldest_state(log: MetadataLog) -> MetadataState:
    """The state before the first record of a log: that of its oldest snapshot, or an empty one."""
    state = MetadataState()
    snapshots = [each for each in log.snapshots() if each.offset >= log.start]
    oldest = min(snapshots, key=lambda each: each.offset, default=None)
    if oldest is not None and (oldest.offset == 0 or log.start > 0):
        state.load(log.read_snapshot(oldest), oldest)
    elif log.start > 0:
        raise DeletedRecordsError(log.start)
    return state


def snapshot_changes(
    state: MetadataState, known: Mapping[tuple[str, tuple[Any, ...]], Row]
) -> Iterator[RowChange]:
    """The changes from known rows, by table and key, to a state that was read from a snapshot."""
    where = state.offset, state.epoch, state.time_ms, state.leader, SNAPSHOT
    for table in TABLES_OF_IMAGE:
        old = {key: row for (of, key), row in known.items() if of == table}
        new = by_key(table, rows_of(state, table))
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield RowChange(*where, table, key, old.get(key), new.get(key))


def record_changes(
    log: MetadataLog, state: TrackedState, until: Moment
) -> Iterator[Iterable[RowChange]]:
    """The changes by the records after a state; the state is always as of the last one."""
    for data in log.read(state.offset + 1):
        for position, fields in walk(data, may_end_in_batch=True):
            header = BatchHeader(*fields)
            may_continue = state.replay(data[position : position + header.size], until)
            yield state.take_changes()
            if not may_continue:
                return

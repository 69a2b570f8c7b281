"""`StoredGroups`: the replayed state of a partition of `__consumer_offsets`.

Only `replay` and `end_transaction` change it, both when a partition is loaded and when the shard's
own batches are committed, so both produce the same state. Offsets of a transaction are kept apart,
by producer, until its marker commits or aborts them.
"""

from __future__ import annotations

from kraftlog.groups.consumer.stored import KEYS, StoredConsumerGroup
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

NO_PRODUCER = -1


class CommittedOffset(Value):
    """A committed offset; `record_offset` is the offset of its record."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: Uuid
    record_offset: int


#: Partition index -> offset, by topic.
GroupOffsets = dict[str, dict[int, CommittedOffset]]


class OffsetTable:
    """Offsets by group, topic and partition, without empty maps."""

    __slots__ = ("_groups_of", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[str, GroupOffsets] = {}
        #: Groups with an offset of a topic. Dicts, for a deterministic order.
        self._groups_of: dict[str, dict[str, None]] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.by_group.get(group, {}).get(topic, {}).get(partition)

    def put(self, group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        topics = self.by_group.setdefault(group, {})
        if topic not in topics:
            topics[topic] = {}
            self._groups_of.setdefault(topic, {})[group] = None
        topics[topic][partition] = offset

    def remove(self, group: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del topics[topic]
            if not topics:
                del self.by_group[group]
            groups = self._groups_of[topic]
            del groups[group]
            if not groups:
                del self._groups_of[topic]

    def has_topic(self, topic: str) -> bool:
        return topic in self._groups_of

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Group, partition and offset of a topic, without scanning other groups."""
        for group in self._groups_of.get(topic, ()):
            for partition, offset in self.by_group[group][topic].items():
                yield group, partition, offset

    def keys(self, group: str) -> Iterator[tuple[str, int]]:
        for topic, partitions in self.by_group.get(group, {}).items():
            for partition in partitions:
                yield topic, partition


class StoredGroups:
    """Groups and offsets as in the log."""

    __slots__ = ("consumer_groups", "groups", "offsets", "open_producers", "transactional")

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadataValue] = {}
        self.consumer_groups: dict[str, StoredConsumerGroup] = {}
        self.offsets = OffsetTable()
        #: Offsets of open transactions, by producer id.
        self.transactional: dict[int, OffsetTable] = {}
        #: Producers with an open transaction per group. A dict, for a deterministic order.
        self.open_producers: dict[str, dict[int, None]] = {}

    def replay(
        self, offset: int, key: Message, value: Message | None, producer_id: int = NO_PRODUCER
    ) -> None:
        """Replay a record; unknown record types change nothing."""
        if isinstance(key, GroupMetadataKey):
            if value is None:
                self.groups.pop(key.group, None)
            else:
                assert isinstance(value, GroupMetadataValue)
                self.groups[key.group] = value
        elif isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            if value is None:
                self._remove_offset(key.group, key.topic, key.partition)
            else:
                self._store_offset(offset, key, value, producer_id)
        elif isinstance(key, KEYS):
            group_id = key.group_id
            if value is not None:
                self.consumer_groups.setdefault(group_id, StoredConsumerGroup())
            stored = self.consumer_groups.get(group_id)
            if stored is not None:
                stored.replay(key, value)
                if stored.is_gone:
                    del self.consumer_groups[group_id]

    def _store_offset(
        self,
        offset: int,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: Any,
        producer_id: int,
    ) -> None:
        is_current_version = isinstance(value, OffsetCommitValue)
        committed = CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch if is_current_version else -1,
            metadata=value.metadata,
            commit_timestamp=value.commit_timestamp,
            expire_timestamp=value.expire_timestamp if is_current_version else -1,
            topic_id=value.topic_id if is_current_version else NULL_UUID,
            record_offset=offset,
        )
        if producer_id == NO_PRODUCER:
            self.offsets.put(key.group, key.topic, key.partition, committed)
        else:
            pending = self.transactional.setdefault(producer_id, OffsetTable())
            pending.put(key.group, key.topic, key.partition, committed)
            self.open_producers.setdefault(key.group, {})[producer_id] = None

    def _remove_offset(self, group: str, topic: str, partition: int) -> None:
        self.offsets.remove(group, topic, partition)
        for producer_id in self.open_producers.get(group, ()):
            self.transactional[producer_id].remove(group, topic, partition)

    def end_transaction(self, producer_id: int, committed: bool) -> list[str]:
        """Commit or abort the offsets of a transaction; return its groups.

        Between these and ordinary commits, the later record wins, as in compaction.
        """
        pending = self.transactional.pop(producer_id, None)
        touched = [
            group for group, producers in self.open_producers.items() if producer_id in producers
        ]
        for group in touched:
            del self.open_producers[group][producer_id]
            if not self.open_producers[group]:
                del self.open_producers[group]
        if pending is not None and committed:
            for group, topics in pending.by_group.items():
                for topic, partitions in topics.items():
                    for partition, offset in partitions.items():
                        current = self.offsets.get(group, topic, partition)
                        if current is None or current.record_offset < offset.record_offset:
                            self.offsets.put(group, topic, partition, offset)
        return touched

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of the group for this partition."""
        return any(
            self.transactional[producer_id].get(group, topic, partition) is not None
            for producer_id in self.open_producers.get(group, ())
        )

    def all_keys(self, group: str) -> dict[tuple[str, int], None]:
        """Every partition with an offset of the group, including open transactions."""
        keys = dict.fromkeys(self.offsets.keys(group))
        for producer_id in self.open_producers.get(group, ()):
            keys.update(dict.fromkeys(self.transactional[producer_id].keys(group)))
        return keys

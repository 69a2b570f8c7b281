"""`Image`: the state of the cluster, replayed from the metadata log.

Only replayed records change it, on leaders, followers and after a restart. The maps hold values
that are replaced, never modified, so callers may keep them; the cost of a change does not depend on
the size of the cluster.

All changes go through `put` and `drop`: a controller overrides them to record how to undo
uncommitted changes.

Records between BeginTransaction and its end take effect together, or never.

A batch with thousands of records is replayed in steps. A topic must never be visible with some of
its partitions, because producers would choose wrong ones. So changes of a topic are `unpublished`
until the batch continues with another subject, and a deleted topic disappears before its
partitions.
"""

from __future__ import annotations

from itertools import chain

from kraftlog.config.keys import TOPIC
from kraftlog.metadata.changes import TopicPublished
from kraftlog.metadata.replay import REPLAY, UnreplayableRecordError
from kraftlog.metadata.snapshot import snapshot_records
from kraftlog.metadata.values import NO_LEADER, BrokerImage, PartitionImage, TopicImage
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.values import PartitionKey
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.metadata_records import (
        AccessControlEntryRecord,
        DelegationTokenRecord,
        ProducerIdsRecord,
        RegisterControllerRecord,
        UserScramCredentialRecord,
    )
    from kraftlog.wire.schema import Message

__all__ = [
    "NO_LEADER",
    "BrokerImage",
    "Image",
    "PartitionImage",
    "ReplayError",
    "TopicImage",
    "UnreplayableRecordError",
]

#: The key of maps with a single value.
ONLY = 0


class ReplayError(Exception):
    """A record contradicts the image; `record` is that record, if known."""

    def __init__(self, what: str, record: Message | None = None) -> None:
        super().__init__(what)
        self.record = record


class Image:
    """The state of the cluster; only replayed records change it."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.topics: dict[Uuid, TopicImage] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.partitions: dict[PartitionKey, PartitionImage] = {}
        #: Removed partitions: one that is added again starts with higher epochs.
        self.removed: dict[PartitionKey, PartitionImage] = {}
        #: Configs by resource type and name.
        self.configs: dict[tuple[int, str], Mapping[str, str]] = {}
        #: Quotas by entity, as sorted pairs of type and name.
        self.quotas: dict[tuple[tuple[str, str | None], ...], Mapping[str, float]] = {}
        self.producer_ids: dict[int, ProducerIdsRecord] = {}
        self.acls: dict[Uuid, AccessControlEntryRecord] = {}
        #: By mechanism and user name.
        self.scram: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        #: The open transaction, if any, and its records so far.
        self.transaction: dict[int, BeginTransactionRecord] = {}
        self.held_back: dict[int, Message] = {}
        #: The topic whose changes are not visible yet, if any.
        self.unpublished: TopicImage | None = None

    @classmethod
    def of(cls, records: Iterable[Message]) -> Image:
        """The image that the records of a snapshot add up to."""
        image = cls()
        for record in records:
            for _ in image.changes_of(record):
                pass
        image.publish()
        return image

    def maps(self) -> dict[str, dict[Any, Any]]:
        """All maps by name; images are equal if these are."""
        return {name: getattr(self, name) for name in MAP_NAMES}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return self.maps() == other.maps()

    __hash__ = None  # type: ignore[assignment]  # it changes

    # Reading -------------------------------------------------------------------------------------

    def topic_named(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def topic(self, topic_id: Uuid) -> TopicImage:
        """A topic, including unpublished changes; raises KeyError if there is none."""
        hidden = self.unpublished
        return hidden if hidden is not None and hidden.id == topic_id else self.topics[topic_id]

    def partitions_of(self, topic: TopicImage) -> Iterator[PartitionImage]:
        """The partitions in order; there may be gaps while a snapshot is being loaded."""
        for index in range(topic.partition_count):
            partition = self.partitions.get((topic.id, index))
            if partition is not None:
                yield partition

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The configs set on a resource, without defaults."""
        return self.configs.get((resource_type, resource_name)) or {}

    @property
    def next_producer_id(self) -> int:
        allocated = self.producer_ids.get(ONLY)
        return 0 if allocated is None else allocated.next_producer_id

    def brokers_without(self, listener: str) -> tuple[int, ...]:
        """Brokers without this listener: the listener's clients cannot reach them."""
        return tuple([b.id for b in self.brokers.values() if b.endpoint(listener) is None])

    def records(self) -> Iterator[Message]:
        """Yield the present image as records, in Kafka's order.

        Later changes are not included, nor is an open transaction, whose start must stay in the
        log.
        """
        return snapshot_records(self)

    # Changing ------------------------------------------------------------------------------------

    def replay(self, record: Message) -> Sequence[Change]:
        """Replay a committed record and publish it; return the changes."""
        changes = list(self.changes_of(record))
        self.publish()
        return changes

    def changes_of(self, record: Message) -> Iterable[Change]:
        """Replay a record of a batch and yield its changes as they are made.

        Consume all changes before the next record, and call `publish` after the last one.
        """
        if self.unpublished is not None and not _is_about(record, self.unpublished):
            return chain(self.publish(), self._changes_of(record))
        return self._changes_of(record)

    def _changes_of(self, record: Message) -> Iterable[Change]:
        kind = type(record)
        if self.transaction and kind not in _OF_TRANSACTIONS:
            self.put(self.held_back, len(self.held_back), record)
            return ()
        apply = REPLAY.get(kind) or _OF_TRANSACTIONS.get(kind)
        if apply is None:
            raise UnreplayableRecordError(
                f"this version of kraftlog cannot replay a {kind.__name__}"
            )
        try:
            changes: Iterable[Change] = apply(self, record)
        except KeyError as missing:
            raise _missing(record, missing) from missing
        return changes if type(changes) is tuple else _checked(changes, record)

    def publish(self) -> Sequence[Change]:
        """Make the unpublished changes of a topic visible."""
        topic, self.unpublished = self.unpublished, None
        if topic is None:
            return ()
        self.put(self.topics, topic.id, topic)
        if topic.name not in self.topic_ids:
            self.put(self.topic_ids, topic.name, topic.id)
        return (TopicPublished(topic),)

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        mapping[key] = value

    def drop(self, mapping: dict[Any, Any], key: Any) -> None:
        """Remove a key."""
        del mapping[key]


def _checked(changes: Iterable[Change], record: Message) -> Iterator[Change]:
    """The changes; a missing key becomes a ReplayError."""
    try:
        yield from changes
    except KeyError as missing:
        raise _missing(record, missing) from missing


def _missing(record: Message, what: KeyError) -> ReplayError:
    from kraftlog.metadata.record_text import record_text, value_text

    key = value_text(what.args[0])
    return ReplayError(f"{record_text(record)} refers to {key}, which does not exist", record)


def _is_about(record: Message, topic: TopicImage) -> bool:
    """Whether a record continues the changes of the unpublished topic."""
    if isinstance(record, PartitionRecord):
        return record.topic_id == topic.id
    if isinstance(record, ConfigRecord):
        return (record.resource_type, record.resource_name) == (TOPIC, topic.name)
    return False


def _begin_transaction(image: Image, record: BeginTransactionRecord) -> Sequence[Change]:
    if image.transaction:
        raise ReplayError("a transaction begins within another")
    image.put(image.transaction, ONLY, record)
    return ()


def _end_transaction(image: Image, _: EndTransactionRecord) -> Iterator[Change]:
    image.drop(image.transaction, ONLY)
    for number in range(len(image.held_back)):
        record = image.held_back[number]
        image.drop(image.held_back, number)
        yield from image.changes_of(record)


def _abort_transaction(image: Image, _: AbortTransactionRecord) -> Sequence[Change]:
    image.drop(image.transaction, ONLY)
    for number in range(len(image.held_back)):
        image.drop(image.held_back, number)
    return ()


MAP_NAMES = tuple([name for name, held in vars(Image()).items() if isinstance(held, dict)])

_OF_TRANSACTIONS: dict[type[Message], Any] = {
    BeginTransactionRecord: _begin_transaction,
    EndTransactionRecord: _end_transaction,
    AbortTransactionRecord: _abort_transaction,
}

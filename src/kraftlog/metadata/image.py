"""The state of the cluster, as the records say it.

`replay` is the only thing that changes it: on a leader, on a follower, after a restart. The maps
hold values that are never changed, only replaced, so whoever took one out may keep it; a change
costs what the change is worth, whatever the size of the cluster.

Every change goes through `put` and `drop`: a controller looks over their shoulder there, to be
able to take back what was never committed.

Records between a BeginTransaction and its end are held back and count all at once, or never.

A batch with thousands of records is replayed in steps. Nobody is to see a topic with a part of its
partitions, by which a producer would give records to the wrong ones: what a batch makes of a topic
is `unpublished` until the batch goes on to something else, and a topic that is deleted disappears
before its partitions do.
"""

from __future__ import annotations

from itertools import chain

from kraftlog.metadata.changes import TopicShown
from kraftlog.metadata.replay import REPLAY, TOPIC, UnknownRecordError
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
    "UnknownRecordError",
]

#: The one key of the maps that hold a single thing.
ONLY = 0


class ReplayError(Exception):
    """A record that can't follow upon those before it; `record` where that is known."""

    def __init__(self, what: str, record: Message | None = None) -> None:
        super().__init__(what)
        self.record = record


class Image:
    """The cluster; read freely, changed by `replay` alone."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.topics: dict[Uuid, TopicImage] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.partitions: dict[PartitionKey, PartitionImage] = {}
        #: What partitions were when they were removed: one that comes back starts above it.
        self.removed: dict[PartitionKey, PartitionImage] = {}
        #: By type and name of the resource.
        self.configs: dict[tuple[int, str], Mapping[str, str]] = {}
        #: By entity, as sorted pairs of type and name.
        self.quotas: dict[tuple[tuple[str, str | None], ...], Mapping[str, float]] = {}
        self.producer_ids: dict[int, ProducerIdsRecord] = {}
        self.acls: dict[Uuid, AccessControlEntryRecord] = {}
        self.scram: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        #: The transaction that is open, if any, and what it has said so far, by number.
        self.transaction: dict[int, BeginTransactionRecord] = {}
        self.held_back: dict[int, Message] = {}
        #: A topic that has become another by the records before, and that is not shown yet.
        self.unpublished: TopicImage | None = None

    def maps(self) -> dict[str, dict[Any, Any]]:
        """All of them by name: two images are the same when these are."""
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
        """As the records before say it, shown or not. Raises KeyError."""
        hidden = self.unpublished
        return hidden if hidden is not None and hidden.id == topic_id else self.topics[topic_id]

    def partitions_of(self, topic: TopicImage) -> Iterator[PartitionImage]:
        """In order. While a snapshot is read, a later one may be known before an earlier one."""
        for index in range(topic.partition_count):
            found = self.partitions.get((topic.id, index))
            if found is not None:
                yield found

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What was set for a resource, without what stands below it."""
        return self.configs.get((resource_type, resource_name)) or {}

    @property
    def next_producer_id(self) -> int:
        allocated = self.producer_ids.get(ONLY)
        return 0 if allocated is None else allocated.next_producer_id

    def brokers_without(self, listener: str) -> tuple[int, ...]:
        """Brokers that do not listen under this name: clients of that listener can't reach them."""
        return tuple([b.id for b in self.brokers.values() if b.endpoint(listener) is None])

    def records(self) -> Iterator[Message]:
        """The image as records, in Kafka's order, as it is now: take as many at a time as suits.

        What is replayed meanwhile is not in them. A transaction that is open isn't either: its
        beginning has to stay in the log.
        """
        return snapshot_records(self)

    # Changing ------------------------------------------------------------------------------------

    def replay(self, record: Message) -> Sequence[Change]:
        """Apply one committed record, at once and for all to see; what it changed."""
        changes = list(self.changes_of(record))
        self.publish()
        return changes

    def changes_of(self, record: Message) -> Iterable[Change]:
        """Apply one record of a batch; what it changes, as it changes it.

        The next one may follow once all changes were taken; behind the last one belongs `publish`.
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
            raise UnknownRecordError(f"no replay of {kind.__name__}")
        try:
            changes: Iterable[Change] = apply(self, record)
        except KeyError as missing:
            raise _missing(record, missing) from missing
        return changes if type(changes) is tuple else _checked(changes, record)

    def publish(self) -> Sequence[Change]:
        """All that was said of a topic has been: it is shown."""
        topic, self.unpublished = self.unpublished, None
        if topic is None:
            return ()
        self.put(self.topics, topic.id, topic)
        if topic.name not in self.topic_ids:
            self.put(self.topic_ids, topic.name, topic.id)
        return (TopicShown(topic),)

    def put(self, held: dict[Any, Any], key: Any, value: Any) -> None:
        held[key] = value

    def drop(self, held: dict[Any, Any], key: Any) -> None:
        """Take out what is there."""
        del held[key]


def _checked(changes: Iterable[Change], record: Message) -> Iterator[Change]:
    try:
        yield from changes
    except KeyError as missing:
        raise _missing(record, missing) from missing


def _missing(record: Message, what: KeyError) -> ReplayError:
    return ReplayError(f"{record!r:.1000} refers to {what}, which does not exist", record)


def _is_about(record: Message, topic: TopicImage) -> bool:
    """Whether a record belongs to what is being said of a topic."""
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

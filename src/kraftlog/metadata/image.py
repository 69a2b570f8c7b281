"""The state of the cluster, as the records say it.

`replay` is the only thing that changes it: on a leader, on a follower, after a restart. The maps
hold values that are never changed, only replaced, so whoever took one out may keep it; a change
costs what the change is worth, whatever the size of the cluster.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

NO_LEADER = -1


class BrokerImage(Value):
    id: int
    epoch: int
    host: str
    port: int
    rack: str | None


class TopicImage(Value):
    id: Uuid
    name: str
    partition_count: int


class PartitionImage(Value):
    topic_id: Uuid
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


class UnknownRecordError(Exception):
    """A record that this version can't replay: going on would be going on with a wrong state."""


class Image:
    """Brokers, topics and partitions; read freely, changed by `replay` alone."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[Uuid, TopicImage] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.partitions: dict[tuple[Uuid, int], PartitionImage] = {}

    def topic_named(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partitions_of(self, topic: TopicImage) -> Iterator[PartitionImage]:
        for index in range(topic.partition_count):
            yield self.partitions[topic.id, index]

    def replay(self, record: Message) -> tuple[Uuid, int] | None:
        """Apply one record; which partition it changed, if it changed one."""
        apply = _REPLAY.get(type(record))
        if apply is None:
            raise UnknownRecordError(f"no replay of {type(record).__name__}")
        return apply(self, record)


def _register_broker(image: Image, record: records.RegisterBrokerRecord) -> None:
    endpoint = record.end_points[0]
    image.brokers[record.broker_id] = BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        host=endpoint.host,
        port=endpoint.port,
        rack=record.rack,
    )


def _topic(image: Image, record: records.TopicRecord) -> None:
    image.topics[record.topic_id] = TopicImage(record.topic_id, record.name, 0)
    image.topic_ids[record.name] = record.topic_id


def _partition(image: Image, record: records.PartitionRecord) -> tuple[Uuid, int]:
    key = record.topic_id, record.partition_id
    topic = image.topics[record.topic_id]
    if key not in image.partitions:
        grown = topic.partition_count + 1
        image.topics[topic.id] = topic.replace(partition_count=grown)
    image.partitions[key] = PartitionImage(
        topic_id=record.topic_id,
        index=record.partition_id,
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )
    return key


_REPLAY: dict[type[Message], Callable[[Image, Any], tuple[Uuid, int] | None]] = {
    records.RegisterBrokerRecord: _register_broker,
    records.TopicRecord: _topic,
    records.PartitionRecord: _partition,
}

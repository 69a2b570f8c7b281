"""An image as records, for a snapshot; replaying them restores the image."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.wire.schema import Message

METADATA_VERSION = "metadata.version"


def snapshot_records(image: Image) -> Iterator[Message]:
    """Yield the records; the maps are copied at the start, each record is created on demand."""
    copies = {name: held.copy() for name, held in image.maps().items()}
    return _records(copies)


def _records(maps: dict[str, dict]) -> Iterator[Message]:  # type: ignore[type-arg]  # of all kinds
    yield from _features(maps["features"])
    for broker in maps["brokers"].values():
        yield broker_record(broker)
    yield from maps["controllers"].values()
    yield from _topics(maps)
    for (resource_type, resource_name), values in maps["configs"].items():
        for name, value in values.items():
            yield records.ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    for entity, values in maps["quotas"].items():
        entity_data = tuple(
            [records.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        )
        for key, value in values.items():
            yield records.ClientQuotaRecord(entity=entity_data, key=key, value=value, remove=False)
    for name in ("producer_ids", "acls", "scram", "tokens"):
        yield from maps[name].values()


def _features(levels: dict[str, int]) -> Iterator[Message]:
    """The feature levels, metadata.version first, because it decides how to read the rest."""
    for name in sorted(levels, key=lambda name: (name != METADATA_VERSION, name)):
        yield records.FeatureLevelRecord(name=name, feature_level=levels[name])


def _topics(maps: dict[str, dict]) -> Iterator[Message]:  # type: ignore[type-arg]  # of all kinds
    partitions, removed = maps["partitions"], maps["removed"]
    for topic in maps["topics"].values():
        yield records.TopicRecord(name=topic.name, topic_id=topic.id)
        for index in range(topic.partition_count):
            yield partition_record(partitions[topic.id, index])
    for partition in removed.values():
        # Kafka has no removed partitions: kraftlog's tagged field in the records below marks them.
        yield partition_record(partition)
    for partition in removed.values():
        yield records.PartitionChangeRecord(
            topic_id=partition.topic_id, partition_id=partition.index, removed=True
        )


def broker_record(broker: BrokerImage) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned,
        unwritable_log_dirs=broker.unwritable,
    )


def partition_record(partition: PartitionImage) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=partition.recovery,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
        first_leader_epoch=partition.first_leader_epoch,
    )

"""How each record type changes an image: one function per type.

A function that may change thousands of partitions is a generator and works in steps.
"""

from __future__ import annotations

from kraftlog.config.keys import TOPIC
from kraftlog.metadata.changes import (
    AclChanged,
    BrokerChanged,
    ConfigChanged,
    FeatureChanged,
    PartitionChanged,
    QuotaChanged,
    TopicCreated,
    TopicRemoved,
)
from kraftlog.metadata.values import NO_LEADER, BrokerImage, DirectoryId, PartitionImage, TopicImage
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

#: Values of PartitionChangeRecord: leader and recovery state do not change.
SAME_LEADER = -2
SAME_RECOVERY = -1


class UnreplayableRecordError(Exception):
    """A record type that this version cannot replay; continuing would leave the state wrong."""


def _nothing(image: Image, record: Message) -> Sequence[Change]:  # noqa: ARG001 - called alike
    return ()


# Brokers and controllers -------------------------------------------------------------------------


def _register_broker(image: Image, record: records.RegisterBrokerRecord) -> Sequence[Change]:
    cordoned = record.cordoned_log_dirs
    broker = BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=tuple(record.end_points),
        features=tuple(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(record.log_dirs),
        cordoned=None if cordoned is None else tuple(cordoned),
        unwritable=tuple(record.unwritable_log_dirs),
    )
    before = image.brokers.get(broker.id)
    image.put(image.brokers, broker.id, broker)
    return (BrokerChanged(before, broker),)


def _unregister_broker(image: Image, record: records.UnregisterBrokerRecord) -> Sequence[Change]:
    before = _broker(image, record.broker_id, record.broker_epoch)
    image.drop(image.brokers, before.id)
    return (BrokerChanged(before, None),)


def _broker(image: Image, broker_id: int, epoch: int) -> BrokerImage:
    broker = image.brokers[broker_id]
    if broker.epoch != epoch:
        raise KeyError(f"broker {broker_id} in epoch {epoch}")
    return broker


def _fence_broker(image: Image, record: records.FenceBrokerRecord) -> Sequence[Change]:
    return _change_broker(image, _broker(image, record.id, record.epoch), fenced=True)


def _unfence_broker(image: Image, record: records.UnfenceBrokerRecord) -> Sequence[Change]:
    return _change_broker(image, _broker(image, record.id, record.epoch), fenced=False)


def _broker_registration_change(
    image: Image, record: records.BrokerRegistrationChangeRecord
) -> Sequence[Change]:
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
    if record.log_dirs:
        changes["directories"] = tuple(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned"] = tuple(record.cordoned_log_dirs)
    if record.unwritable_log_dirs is not None:
        changes["unwritable"] = tuple(record.unwritable_log_dirs)
    return _change_broker(image, _broker(image, record.broker_id, record.broker_epoch), **changes)


def _change_broker(image: Image, before: BrokerImage, **changes: Any) -> Sequence[Change]:
    after = before.replace(**changes)
    image.put(image.brokers, after.id, after)
    return (BrokerChanged(before, after),)


def _register_controller(
    image: Image, record: records.RegisterControllerRecord
) -> Sequence[Change]:
    image.put(image.controllers, record.controller_id, record)
    return ()


def _unregister_controller(
    image: Image, record: records.UnregisterControllerRecord
) -> Sequence[Change]:
    image.drop(image.controllers, record.controller_id)
    return ()


# Topics and partitions ---------------------------------------------------------------------------


def _topic(image: Image, record: records.TopicRecord) -> Sequence[Change]:
    """Create a topic; it becomes visible with its partitions, by `Image.publish`."""
    topic = TopicImage(record.topic_id, record.name, 0)
    if image.topic_ids.get(topic.name, topic.id) != topic.id or topic.id in image.topics:
        raise KeyError(f"an unused name and topic id for {topic.name}")
    image.unpublished = topic
    return (TopicCreated(topic),)


def _remove_topic(image: Image, record: records.RemoveTopicRecord) -> Iterator[Change]:
    """Delete a topic; it disappears before its partitions."""
    topic = image.topics[record.topic_id]
    image.drop(image.topics, topic.id)
    image.drop(image.topic_ids, topic.name)
    for partition in image.partitions_of(topic):
        image.drop(image.partitions, partition.key)
        yield PartitionChanged(partition, None)
    if image.removed:
        for key in [key for key in image.removed if key[0] == topic.id]:
            image.drop(image.removed, key)
    if (TOPIC, topic.name) in image.configs:
        image.drop(image.configs, (TOPIC, topic.name))
    yield TopicRemoved(topic)


def _partition(image: Image, record: records.PartitionRecord) -> Sequence[Change]:
    topic = image.topic(record.topic_id)
    partition = _replayed_before(record, None) or _new_partition(topic, record)
    key = partition.key
    if partition.index >= topic.partition_count:
        image.unpublished = TopicImage(topic.id, topic.name, partition.index + 1)
    if key in image.removed:
        image.drop(image.removed, key)
    before = image.partitions.get(key)
    image.put(image.partitions, key, partition)
    return (PartitionChanged(before, partition),)


def _new_partition(topic: TopicImage, record: records.PartitionRecord) -> PartitionImage:
    partition = PartitionImage(
        topic_id=topic.id,
        index=record.partition_id,
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=_directories(record.directories, len(record.replicas)),
        removing=tuple(record.removing_replicas),
        adding=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        recovery=record.leader_recovery_state,
        first_leader_epoch=record.first_leader_epoch,
    )
    record.replayed = None, partition
    return partition


def _replayed_before(
    record: records.PartitionRecord | records.PartitionChangeRecord, before: PartitionImage | None
) -> PartitionImage | None:
    """The partition that an earlier replay of this record onto the same `before` has made.

    A node with both roles replays a record twice: on the controller's state and on the broker's
    image. The two share the partition.
    """
    earlier: tuple[PartitionImage | None, PartitionImage] | None = getattr(record, "replayed", None)
    return earlier[1] if earlier is not None and earlier[0] is before else None


def _directories(recorded: Sequence[Uuid], replicas: int) -> tuple[Uuid, ...]:
    """The directories of the replicas; the legacy directory id if the record has none."""
    return tuple(recorded) if recorded else (DirectoryId.MIGRATING,) * replicas


def _partition_change(image: Image, record: records.PartitionChangeRecord) -> Sequence[Change]:
    before = image.partitions[record.topic_id, record.partition_id]
    if record.removed:
        return _remove_partition(image, before)
    after = _replayed_before(record, before)
    if after is None:
        after = changed_partition(before, record)
        record.replayed = before, after
    image.put(image.partitions, after.key, after)
    return (PartitionChanged(before, after),)


def changed_partition(
    before: PartitionImage, record: records.PartitionChangeRecord
) -> PartitionImage:
    """A partition after a change; a record that names a leader bumps the leader epoch."""
    replicas = _or(record.replicas, before.replicas)
    same_leader = record.leader == SAME_LEADER
    recovery = record.leader_recovery_state
    directories = record.directories
    after = PartitionImage(
        topic_id=before.topic_id,
        index=before.index,
        replicas=replicas,
        isr=_or(record.isr, before.isr),
        leader=before.leader if same_leader else record.leader,
        leader_epoch=before.leader_epoch if same_leader else before.leader_epoch + 1,
        partition_epoch=before.partition_epoch + 1,
        directories=before.directories
        if directories is None and len(replicas) == len(before.replicas)
        else _directories(directories or (), len(replicas)),
        removing=_or(record.removing_replicas, before.removing),
        adding=_or(record.adding_replicas, before.adding),
        elr=_or(record.eligible_leader_replicas, before.elr),
        last_known_elr=_or(record.last_known_elr, before.last_known_elr),
        recovery=before.recovery if recovery == SAME_RECOVERY else recovery,
        first_leader_epoch=before.first_leader_epoch,
    )
    after.share_key(before)
    return after


def _or(recorded: Sequence[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if recorded is None else tuple(recorded)


def _remove_partition(image: Image, before: PartitionImage) -> Sequence[Change]:
    """Remove a partition: one of the last of its topic, in any order (V11)."""
    topic = image.topics[before.topic_id]
    image.drop(image.partitions, before.key)
    image.put(image.removed, before.key, before.replace(leader=NO_LEADER))
    if before.index < topic.partition_count:
        image.put(image.topics, topic.id, topic.replace(partition_count=before.index))
    return (PartitionChanged(before, None),)


def _clear_elr(image: Image, record: records.ClearElrRecord) -> Iterator[Change]:
    """Clear the ELR of the partitions of one topic, or of all topics."""
    if record.topic_name:
        topics = [image.topics[image.topic_ids[record.topic_name]]]
    else:
        topics = list(image.topics.values())
    for topic in topics:
        for before in image.partitions_of(topic):
            if before.elr or before.last_known_elr:
                after = before.replace(
                    elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1
                )
                image.put(image.partitions, after.key, after)
                yield PartitionChanged(before, after)


# Other records -----------------------------------------------------------------------------------


def _feature_level(image: Image, record: records.FeatureLevelRecord) -> Sequence[Change]:
    if record.feature_level:
        image.put(image.features, record.name, record.feature_level)
    elif record.name in image.features:
        image.drop(image.features, record.name)
    return (FeatureChanged(record.name, record.feature_level),)


def _config(image: Image, record: records.ConfigRecord) -> Sequence[Change]:
    resource = record.resource_type, record.resource_name
    values = {**image.configs.get(resource, {})}
    if record.value is None:
        values.pop(record.name, None)
    else:
        values[record.name] = record.value
    _put_or_drop(image, image.configs, resource, values)
    return (ConfigChanged(record.resource_type, record.resource_name, record.name, record.value),)


def _client_quota(image: Image, record: records.ClientQuotaRecord) -> Sequence[Change]:
    pairs = [(part.entity_type, part.entity_name) for part in record.entity]
    entity = tuple(sorted(pairs, key=lambda pair: pair[0]))
    values = {**image.quotas.get(entity, {})}
    before = values.pop(record.key, None)
    after = None if record.remove else record.value
    if after is not None:
        values[record.key] = after
    _put_or_drop(image, image.quotas, entity, values)
    return (QuotaChanged(entity, record.key, before, after),)


def _put_or_drop(image: Image, mapping: dict[Any, Any], key: Any, value: dict[str, Any]) -> None:
    """Put an inner map, or drop it if it is empty."""
    if value:
        image.put(mapping, key, value)
    elif key in mapping:
        image.drop(mapping, key)


def _producer_ids(image: Image, record: records.ProducerIdsRecord) -> Sequence[Change]:
    if record.next_producer_id < image.next_producer_id:
        raise KeyError(f"unused producer ids before {image.next_producer_id}")
    image.put(image.producer_ids, 0, record)
    return ()


def _acl(image: Image, record: records.AccessControlEntryRecord) -> Sequence[Change]:
    before = image.acls.get(record.id)
    image.put(image.acls, record.id, record)
    return (AclChanged(before, record),)


def _remove_acl(image: Image, record: records.RemoveAccessControlEntryRecord) -> Sequence[Change]:
    before = image.acls[record.id]
    image.drop(image.acls, record.id)
    return (AclChanged(before, None),)


def _scram(image: Image, record: records.UserScramCredentialRecord) -> Sequence[Change]:
    image.put(image.scram, (record.mechanism, record.name), record)
    return ()


def _remove_scram(
    image: Image, record: records.RemoveUserScramCredentialRecord
) -> Sequence[Change]:
    image.drop(image.scram, (record.mechanism, record.name))
    return ()


def _token(image: Image, record: records.DelegationTokenRecord) -> Sequence[Change]:
    image.put(image.tokens, record.token_id, record)
    return ()


def _remove_token(image: Image, record: records.RemoveDelegationTokenRecord) -> Sequence[Change]:
    # Kafka's controller looks at tokens as of the last publication, and so may remove one twice.
    if record.token_id in image.tokens:
        image.drop(image.tokens, record.token_id)
    return ()


REPLAY: dict[type[Message], Callable[[Image, Any], Iterable[Change]]] = {
    records.RegisterBrokerRecord: _register_broker,
    records.UnregisterBrokerRecord: _unregister_broker,
    records.FenceBrokerRecord: _fence_broker,
    records.UnfenceBrokerRecord: _unfence_broker,
    records.BrokerRegistrationChangeRecord: _broker_registration_change,
    records.RegisterControllerRecord: _register_controller,
    records.UnregisterControllerRecord: _unregister_controller,
    records.TopicRecord: _topic,
    records.RemoveTopicRecord: _remove_topic,
    records.PartitionRecord: _partition,
    records.PartitionChangeRecord: _partition_change,
    records.ClearElrRecord: _clear_elr,
    records.FeatureLevelRecord: _feature_level,
    records.ConfigRecord: _config,
    records.ClientQuotaRecord: _client_quota,
    records.ProducerIdsRecord: _producer_ids,
    records.AccessControlEntryRecord: _acl,
    records.RemoveAccessControlEntryRecord: _remove_acl,
    records.UserScramCredentialRecord: _scram,
    records.RemoveUserScramCredentialRecord: _remove_scram,
    records.DelegationTokenRecord: _token,
    records.RemoveDelegationTokenRecord: _remove_token,
    records.NoOpRecord: _nothing,
    # Logs of clusters migrated from ZooKeeper have it; Kafka 4 no longer writes it.
    records.ZkMigrationStateRecord: _nothing,
}

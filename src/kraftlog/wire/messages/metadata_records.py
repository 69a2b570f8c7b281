"""The records of the metadata log, in the order of their type numbers."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import (
    Message,
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.types import Uuid


class BrokerEndpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Message):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Message, versions=(0, 4), flexible=0):
    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(since=2, default=False)
    incarnation_id: Uuid = uuid()
    broker_epoch: int = int64()
    end_points: Sequence[BrokerEndpoint] = array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable=True)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(since=1, default=False)
    log_dirs: Sequence[Uuid] = array("uuid", since=3, tag=0, default=())
    cordoned_log_dirs: Sequence[Uuid] | None = array(
        "uuid", since=4, nullable=True, tag=1, default=None
    )
    # Our own: online directories that cannot be written at present.
    unwritable_log_dirs: Sequence[Uuid] = array("uuid", tag=10000, default=())


class UnregisterBrokerRecord(Message, versions=(0, 0), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64()


class TopicRecord(Message, versions=(0, 0), flexible=0):
    name: str = string()
    topic_id: Uuid = uuid()


class PartitionRecord(Message, versions=(0, 2), flexible=0):
    # A cache for the next image that replays this record: (None, the partition that it creates).
    __slots__ = ("replayed",)

    if TYPE_CHECKING:
        replayed: Any = binary(init=False)

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    replicas: Sequence[int] = array("int32")
    isr: Sequence[int] = array("int32")
    removing_replicas: Sequence[int] = array("int32")
    adding_replicas: Sequence[int] = array("int32")
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0, default=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: Sequence[Uuid] = array("uuid", since=1, default=())
    eligible_leader_replicas: Sequence[int] | None = array(
        "int32", since=2, nullable=True, tag=1, default=None
    )
    last_known_elr: Sequence[int] | None = array(
        "int32", since=2, nullable=True, tag=2, default=None
    )
    # Our own: the first leader epoch of a partition that was removed and added again.
    first_leader_epoch: int = int32(tag=10000, default=0)


class ConfigRecord(Message, versions=(0, 0), flexible=0):
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


class PartitionChangeRecord(Message, versions=(0, 2), flexible=0):
    # A cache for the next image that replays this record: the partition (before, after) it.
    __slots__ = ("replayed",)

    if TYPE_CHECKING:
        replayed: Any = binary(init=False)

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    isr: Sequence[int] | None = array("int32", nullable=True, tag=0, default=None)
    leader: int = int32(tag=1, default=-2)
    replicas: Sequence[int] | None = array("int32", nullable=True, tag=2, default=None)
    removing_replicas: Sequence[int] | None = array("int32", nullable=True, tag=3, default=None)
    adding_replicas: Sequence[int] | None = array("int32", nullable=True, tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=-1)
    directories: Sequence[Uuid] | None = array("uuid", since=1, nullable=True, tag=8, default=None)
    eligible_leader_replicas: Sequence[int] | None = array(
        "int32", since=2, nullable=True, tag=6, default=None
    )
    last_known_elr: Sequence[int] | None = array(
        "int32", since=2, nullable=True, tag=7, default=None
    )
    # Our own: the partition was removed from its topic.
    removed: bool = boolean(tag=10000, default=False)


class FenceBrokerRecord(Message, versions=(0, 0), flexible=0):
    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message, versions=(0, 0), flexible=0):
    id: int = int32()
    epoch: int = int64()


class RemoveTopicRecord(Message, versions=(0, 0), flexible=0):
    topic_id: Uuid = uuid()


class DelegationTokenRecord(Message, versions=(0, 0), flexible=0):
    owner: str = string()
    requester: str = string()
    renewers: Sequence[str] = array("string")
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class UserScramCredentialRecord(Message, versions=(0, 0), flexible=0):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary()
    stored_key: bytes = binary()
    server_key: bytes = binary()
    iterations: int = int32()


class FeatureLevelRecord(Message, versions=(0, 0), flexible=0):
    name: str = string()
    feature_level: int = int16()


class EntityData(Message):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ClientQuotaRecord(Message, versions=(0, 0), flexible=0):
    entity: Sequence[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Message, versions=(0, 0), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class BrokerRegistrationChangeRecord(Message, versions=(0, 3), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0, default=0)
    in_controlled_shutdown: int = int8(since=1, tag=1, default=0)
    log_dirs: Sequence[Uuid] = array("uuid", since=2, tag=2, default=())
    cordoned_log_dirs: Sequence[Uuid] | None = array(
        "uuid", since=3, nullable=True, tag=3, default=None
    )
    # Our own: online directories that cannot be written at present; null: no change.
    unwritable_log_dirs: Sequence[Uuid] | None = array(
        "uuid", nullable=True, tag=10000, default=None
    )


class AccessControlEntryRecord(Message, versions=(0, 0), flexible=0):
    id: Uuid = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, versions=(0, 0), flexible=0):
    id: Uuid = uuid()


class NoOpRecord(Message, versions=(0, 0), flexible=0):
    pass


class ZkMigrationStateRecord(Message, versions=(0, 0), flexible=0):
    zk_migration_state: int = int8()


class RemoveUserScramCredentialRecord(Message, versions=(0, 0), flexible=0):
    name: str = string()
    mechanism: int = int8()


class BeginTransactionRecord(Message, versions=(0, 0), flexible=0):
    name: str | None = string(nullable=True, tag=0, default=None)


class EndTransactionRecord(Message, versions=(0, 0), flexible=0):
    pass


class AbortTransactionRecord(Message, versions=(0, 0), flexible=0):
    reason: str | None = string(nullable=True, tag=0, default=None)


class RemoveDelegationTokenRecord(Message, versions=(0, 0), flexible=0):
    token_id: str = string()


class ControllerEndpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Message):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Message, versions=(0, 0), flexible=0):
    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = boolean()
    end_points: Sequence[ControllerEndpoint] = array(ControllerEndpoint)
    features: Sequence[ControllerFeature] = array(ControllerFeature)


class ClearElrRecord(Message, versions=(0, 0), flexible=0):
    topic_name: str = string()


class UnregisterControllerRecord(Message, versions=(0, 0), flexible=0):
    controller_id: int = int32()

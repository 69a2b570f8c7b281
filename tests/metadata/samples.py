"""Sample records for every kind of state that a metadata log of Kafka 4.3 may hold."""

from __future__ import annotations

from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.schema import Message


def uuid(number: int) -> bytes:
    return bytes([1]) + number.to_bytes(15, "big")


def register_broker(number: int = 1, epoch: int = 10, **changes: object) -> Message:
    endpoint = records.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
    feature = records.BrokerFeature(
        name="metadata.version", min_supported_version=7, max_supported_version=30
    )
    record = records.RegisterBrokerRecord(
        broker_id=number,
        incarnation_id=uuid(number),
        broker_epoch=epoch,
        end_points=(endpoint,),
        features=(feature,),
        rack="r",
        log_dirs=(uuid(100 + number),),
    )
    return record.replace(**changes)


def partition(topic: int, index: int, **changes: object) -> Message:
    record = records.PartitionRecord(
        partition_id=index,
        topic_id=uuid(topic),
        replicas=(1, 2),
        isr=(1,),
        removing_replicas=(),
        adding_replicas=(2,),
        leader=1,
        leader_epoch=3,
        partition_epoch=4,
        directories=(uuid(101), uuid(102)),
        eligible_leader_replicas=(2,),
        last_known_elr=(1,),
        leader_recovery_state=1,
    )
    return record.replace(**changes)


def config(name: str, key: str, value: str | None, kind: int = 2) -> Message:
    return records.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def quota(user: str | None, key: str, value: float, *, remove: bool = False) -> Message:
    entity = (
        records.EntityData(entity_type="client-id", entity_name="c"),
        records.EntityData(entity_type="user", entity_name=user),
    )
    return records.ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def acl(number: int) -> Message:
    return records.AccessControlEntryRecord(
        id=uuid(number),
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:u",
        host="*",
        operation=3,
        permission_type=3,
    )


def scram(name: str) -> Message:
    return records.UserScramCredentialRecord(
        name=name, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )


def token(name: str) -> Message:
    return records.DelegationTokenRecord(
        owner="User:o",
        requester="User:r",
        renewers=("User:n",),
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=3,
        token_id=name,
    )


def controller(number: int) -> Message:
    return records.RegisterControllerRecord(
        controller_id=number,
        incarnation_id=uuid(number),
        zk_migration_ready=False,
        end_points=(
            records.ControllerEndpoint(name="CONTROLLER", host="h", port=9093, security_protocol=0),
        ),
        features=(
            records.ControllerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
        ),
    )


def producer_ids(next_id: int) -> Message:
    return records.ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=next_id)


def feature(name: str, level: int) -> Message:
    return records.FeatureLevelRecord(name=name, feature_level=level)


def topic(number: int, name: str) -> Message:
    return records.TopicRecord(name=name, topic_id=uuid(number))


#: The records of a snapshot, in Kafka's order.
SNAPSHOT = (
    feature("metadata.version", 30),
    feature("eligible.leader.replicas.version", 1),
    feature("group.version", 1),
    register_broker(1),
    register_broker(2, fenced=False, in_controlled_shutdown=True, cordoned_log_dirs=()),
    controller(1),
    topic(1, "a"),
    partition(1, 0),
    partition(1, 1, eligible_leader_replicas=None, last_known_elr=None),
    topic(2, "b"),
    partition(2, 0, adding_replicas=(), leader_recovery_state=0),
    config("a", "retention.ms", "1"),
    config("", "min.insync.replicas", "2", kind=4),
    quota("u", "consumer_byte_rate", 1.5),
    quota(None, "producer_byte_rate", 2.5),
    producer_ids(3000),
    acl(7),
    scram("u"),
    token("t"),
)

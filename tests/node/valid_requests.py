"""Requests that succeed; `nearly_valid` changes some of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.metadata.features import SET_BY_RECORDS
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import (
    add_raft_voter,
    alter_partition,
    broker_heartbeat,
    broker_registration,
    fetch,
    heartbeat,
    join_group,
    offset_commit,
    produce,
    remove_raft_voter,
    sync_group,
    update_raft_voter,
)
from kraftlog.wire.versioned_schema import VersionedSchema
from tests.virtual_host import CLUSTER_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.wire.schema import Message
    from tests.node.fuzzed_node import FuzzedNode, InformedSampler

#: Probabilities that a field of a valid request gets another value; each request draws one.
CHANGE_RATES = (0.0, 0.05, 0.2)


def _topic(target: FuzzedNode) -> str:
    topics = [name for name in target.host.node.image.topic_ids if not name.startswith("__")]
    return target.random.choice(topics) if topics else "demo"


def _topic_id(target: FuzzedNode, topic: str) -> bytes:
    return target.host.node.image.topic_ids.get(topic, bytes(16))


def _member(target: FuzzedNode) -> tuple[str, str, int]:
    """The group id, member id and generation of a group with a member, if there is one."""
    coordinators = target.host.node.group_coordinators
    assert coordinators is not None
    for shard in coordinators.shards():
        for group in shard.groups.values():
            if group.members:
                return group.group_id, target.random.choice(list(group.members)), group.generation
    return "g", "", -1


def _batch(target: FuzzedNode) -> bytes:
    random = target.random
    producer_id = random.choice((-1, -1, 5, 6))
    sequence = -1 if producer_id < 0 else random.choice((0, 1, 2))
    epoch = -1 if producer_id < 0 else 0
    builder = BatchBuilder(
        codec=random.choice((0, 0, 0, 1, 4)),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    for _ in range(random.randrange(1, 4)):
        builder.append(0, random.choice((None, b"k")), random.randbytes(4))
    return builder.build()


def _produce(target: FuzzedNode) -> Message:
    topic = _topic(target)
    part = produce.PartitionProduceData(index=0, records=_batch(target))
    return produce.ProduceRequest(
        acks=target.random.choice((-1, 1, 0)),
        timeout_ms=100,
        topic_data=[
            produce.TopicProduceData(
                name=topic, topic_id=_topic_id(target, topic), partition_data=[part]
            )
        ],
    )


def _fetch(target: FuzzedNode) -> Message:
    topic = _topic(target)
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        topics=[
            fetch.FetchTopic(topic=topic, topic_id=_topic_id(target, topic), partitions=[part])
        ],
        forgotten_topics_data=(),
    )


def _join(target: FuzzedNode) -> Message:
    group, member_id, _ = _member(target)
    return join_group.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=target.random.choice((member_id, "", *target.member_ids)),
        group_instance_id=target.random.choice((None, None, "i")),
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
    )


def _sync(target: FuzzedNode) -> Message:
    group, member_id, generation = _member(target)
    assignment = sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=b"a")
    return sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )


def _heartbeat(target: FuzzedNode) -> Message:
    group, member_id, generation = _member(target)
    return heartbeat.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)


def _commit(target: FuzzedNode) -> Message:
    group, member_id, generation = _member(target)
    topic = _topic(target)
    part = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=3, committed_metadata=""
    )
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic, topic_id=_topic_id(target, topic), partitions=[part]
            )
        ],
    )


def _register(target: FuzzedNode) -> Message:
    broker_id = target.random.choice((1, 2, 3))
    features = [
        broker_registration.Feature(
            name=name, min_supported_version=0, max_supported_version=highest
        )
        for name, (_, highest) in SET_BY_RECORDS.items()
    ]
    metadata_version = broker_registration.Feature(
        name="metadata.version", min_supported_version=7, max_supported_version=30
    )
    listener = broker_registration.Listener(name="PLAINTEXT", host="h", port=9, security_protocol=0)
    return broker_registration.BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=target.random.randbytes(16),
        listeners=[listener],
        features=[*features, metadata_version],
        rack=None,
        log_dirs=[target.random.randbytes(16)],
    )


def _broker_heartbeat(target: FuzzedNode) -> Message:
    node = target.host.node
    brokers = list(node.image.brokers.values())
    broker = target.random.choice(brokers) if brokers else None
    return broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=1 if broker is None else broker.id,
        broker_epoch=-1 if broker is None else broker.epoch,
        current_metadata_offset=node.quorum.applied,
        want_fence=False,
        want_shut_down=target.random.random() < 0.2,
    )


def _voter(target: FuzzedNode) -> tuple[int, bytes]:
    """The id and directory id of a voter or, sometimes, of node 2."""
    voters = target.host.node.quorum.core.log.voter_set.voters
    if target.random.random() < 0.7 and voters:
        key = target.random.choice(voters).key
        return key.id, key.directory_id
    return 2, bytes([2] * 16)


def _added_voter(target: FuzzedNode) -> tuple[int, bytes]:
    """The id and directory id of a node that is no voter, if there is one; else of a voter."""
    voters = target.host.node.quorum.core.log.voter_set
    others = [it for it in target.directory_ids if it[0] and voters.voter(it[0]) is None]
    if not others:
        return _voter(target)
    directory_id = target.random.choice(others)
    return directory_id[0], directory_id


def _add_voter(target: FuzzedNode) -> Message:
    voter_id, directory_id = _added_voter(target)
    host, port = target.address_of(voter_id)
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=10,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[add_raft_voter.Listener(name="CONTROLLER", host=host, port=port)],
        ack_when_committed=False,
    )


def _remove_voter(target: FuzzedNode) -> Message:
    voter_id, directory_id = _voter(target)
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=voter_id, voter_directory_id=directory_id
    )


def _update_voter(target: FuzzedNode) -> Message:
    voter_id, directory_id = _voter(target)
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=target.host.node.quorum.epoch,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[update_raft_voter.Listener(name="CONTROLLER", host="h", port=9)],
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
    )


def _alter_partition(target: FuzzedNode) -> Message:
    """A leader proposes itself as the ISR of a partition."""
    image = target.host.node.image
    partitions = [each for each in image.partitions.values() if each.leader in image.brokers]
    topics = []
    broker_id, broker_epoch = 1, -1
    if partitions:
        partition = target.random.choice(partitions)
        broker_id, broker_epoch = partition.leader, image.brokers[partition.leader].epoch
        data = alter_partition.PartitionData(
            partition_index=partition.index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=(broker_id,),
            new_isr_with_epochs=[
                alter_partition.BrokerState(broker_id=broker_id, broker_epoch=broker_epoch)
            ],
        )
        topics = [alter_partition.TopicData(topic_id=partition.topic_id, partitions=[data])]
    return alter_partition.AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=topics
    )


VALID: dict[int, Callable[[FuzzedNode], Message]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.BROKER_REGISTRATION: _register,
    ApiKey.BROKER_HEARTBEAT: _broker_heartbeat,
    ApiKey.ALTER_PARTITION: _alter_partition,
    ApiKey.ADD_RAFT_VOTER: _add_voter,
    ApiKey.REMOVE_RAFT_VOTER: _remove_voter,
    ApiKey.UPDATE_RAFT_VOTER: _update_voter,
}


def nearly_valid(target: FuzzedNode, sampler: InformedSampler, key: int, version: int) -> Any:
    """A valid request of this version, of which some fields may be changed."""
    message = VALID[key](target)
    return _with_changed_fields(
        message,
        VersionedSchema(type(message), version),
        sampler,
        target.random.choice(CHANGE_RATES),
    )


def _with_changed_fields(
    message: Message, schema: VersionedSchema, sampler: InformedSampler, rate: float
) -> Any:
    changes: dict[str, Any] = {}
    for field in type(message)._schema:
        value = getattr(message, field.name)
        if not field.in_version(schema.version):
            changes[field.name] = field.default
        elif field.tag < 0 and sampler.random.random() < rate:
            changes[field.name] = sampler.value(field, schema)
        elif field.struct is not None and field.is_array and value:
            changes[field.name] = [
                _with_changed_fields(item, schema, sampler, rate) for item in value
            ]
    return message.replace(**changes)

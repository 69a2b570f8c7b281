"""V1, V9: AlterPartition is decided by leader epoch, partition epoch and broker epochs."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
)
from kraftlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from kraftlog.wire.messages.assign_replicas_to_dirs import PartitionData as DirectoryPartition
from kraftlog.wire.messages.assign_replicas_to_dirs import TopicData as DirectoryTopic
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from tests.controller.cluster import Cluster, directory, numbered_id

TOPIC = numbered_id(1)


def cluster_with_three_replicas() -> Cluster:
    """A cluster whose partition has replicas 1 to 3, leader 1, ISR 1 and 2, partition epoch 1."""
    cluster = Cluster(brokers=3)
    cluster.create("t", (1, 2, 3))
    alter_isr(cluster, (1, 2), partition_epoch=0)
    return cluster


def alter_isr(
    cluster: Cluster, isr: tuple[int, ...], **fields: Any
) -> tuple[PartitionResult, list[Any]]:
    sender = fields.pop("sender", 1)
    epochs = fields.pop("epochs", {})
    data: dict[str, Any] = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 1, **fields}
    data.setdefault(
        "new_isr_with_epochs",
        [BrokerState(broker_id=b, broker_epoch=epochs.get(b, -1)) for b in isr],
    )
    request = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=cluster.state.brokers[sender].epoch,
        topics=[TopicData(topic_id=TOPIC, partitions=[PartitionData(**data)])],
    )
    decision = cluster.ask(ApiKey.ALTER_PARTITION, request)
    assert decision.response.error_code == 0
    (topic,) = decision.response.topics
    return topic.partitions[0], list(decision.records)


def test_v1_shrinking_the_isr_keeps_the_leader_epoch() -> None:
    """C205."""
    cluster = cluster_with_three_replicas()
    result, records = alter_isr(cluster, (1,))
    assert records == [PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(1,))]
    assert result == PartitionResult(
        partition_index=0,
        error_code=0,
        leader_id=1,
        leader_epoch=0,
        isr=(1,),
        partition_epoch=2,
    )


def test_v1_a_follower_joins_the_isr_and_a_repeat_has_no_record() -> None:
    """C176, C205."""
    cluster = cluster_with_three_replicas()
    joined, records = alter_isr(cluster, (1, 2, 3))
    assert (joined.isr, len(records)) == ((1, 2, 3), 1)
    repeated, records = alter_isr(cluster, (1, 2, 3), partition_epoch=2)
    assert (repeated.isr, repeated.partition_epoch, records) == ((1, 2, 3), 2, [])


def test_before_version_3_the_isr_comes_without_epochs() -> None:
    result, _ = alter_isr(
        cluster_with_three_replicas(), (), new_isr=(1, 2, 3), new_isr_with_epochs=()
    )
    assert result.isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ((1,), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1,), {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ((1,), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1,), {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ((2,), {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ((2,), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 3, 4), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 3), {"epochs": {3: 0}}, ErrorCode.INELIGIBLE_REPLICA),
        ((1,), {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_v9_an_outdated_or_invalid_isr_change_is_refused(
    isr: tuple[int, ...], fields: dict[str, Any], code: int
) -> None:
    """C165, C174, C175."""
    cluster = cluster_with_three_replicas()
    before = cluster.committed.partitions[TOPIC, 0]
    result, records = alter_isr(cluster, isr, **fields)
    assert (result.error_code, records) == (code, [])
    assert cluster.committed.partitions[TOPIC, 0] == before


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_fenced_or_stopping_broker_does_not_join_the_isr(is_stopping: bool) -> None:
    """C162, C163."""
    cluster = cluster_with_three_replicas()
    cluster.create("led", (3,))
    if is_stopping:
        cluster.heartbeat(3, want_shut_down=True)
        assert cluster.state.brokers[3].in_controlled_shutdown
    else:
        cluster.controller.note_broker_down(3)
        cluster.pass_time(0)
    result, _ = alter_isr(cluster, (1, 2, 3))
    assert result.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_v18_a_replica_in_an_offline_directory_does_not_join_the_isr() -> None:
    """Its leader may not have seen yet that the directory has failed."""
    cluster = Cluster(brokers=3)
    cluster.register(3, incarnation=2, log_dirs=[directory(3), directory(3, 2)])
    cluster.heartbeat(3)
    cluster.create("t", (1, 2, 3))
    assignment = AssignReplicasToDirsRequest(
        broker_id=3,
        broker_epoch=cluster.state.brokers[3].epoch,
        directories=[
            DirectoryData(
                id=directory(3, 2),
                topics=[
                    DirectoryTopic(
                        topic_id=TOPIC, partitions=[DirectoryPartition(partition_index=0)]
                    )
                ],
            )
        ],
    )
    cluster.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, assignment)
    cluster.heartbeat(3, offline_log_dirs=[directory(3, 2)])
    before = cluster.committed.partitions[TOPIC, 0]
    assert before.isr == (1, 2)
    result, records = alter_isr(cluster, (1, 2, 3), partition_epoch=before.partition_epoch)
    assert (result.error_code, records) == (ErrorCode.INELIGIBLE_REPLICA, [])


def test_a_previous_incarnation_of_the_leader_is_refused() -> None:
    """C165."""
    cluster = cluster_with_three_replicas()
    request = AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=())
    decision = cluster.ask(ApiKey.ALTER_PARTITION, request)
    assert decision.response.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_an_isr_change_of_an_unknown_topic_is_refused() -> None:
    cluster = cluster_with_three_replicas()
    data = PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=cluster.state.brokers[1].epoch,
        topics=[TopicData(topic_id=numbered_id(99), partitions=[data])],
    )
    decision = cluster.ask(ApiKey.ALTER_PARTITION, request)
    (topic,) = decision.response.topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_named_twice_changes_once() -> None:
    """S8: two changes of one request would both be decided on the state before it."""
    cluster = cluster_with_three_replicas()
    data = [
        PartitionData(
            partition_index=0,
            leader_epoch=0,
            partition_epoch=1,
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=-1) for b in isr],
        )
        for isr in ((1, 2, 3), (1,))
    ]
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=cluster.state.brokers[1].epoch,
        topics=[TopicData(topic_id=TOPIC, partitions=data)],
    )
    decision = cluster.ask(ApiKey.ALTER_PARTITION, request)
    codes = [partition.error_code for partition in decision.response.topics[0].partitions]
    assert codes == [0, ErrorCode.INVALID_REQUEST]
    assert cluster.committed.partitions[TOPIC, 0].isr == (1, 2, 3)

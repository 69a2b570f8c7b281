"""V10: reassignments grow, catch up and shrink; they are cancelled, replaced and listed."""

from __future__ import annotations

import pytest

from kraftlog.controller.decision import Decision
from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import voters_by_id
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraftlog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kraftlog.wire.messages.metadata_records import (
    PartitionChangeRecord,
)
from tests.controller.cluster import Cluster, directory, numbered_id
from tests.controller.test_elections import stop_brokers
from tests.controller.test_isr import alter_isr

TOPIC = numbered_id(1)


def reassigning_cluster(target: tuple[int, ...] = (3, 4)) -> Cluster:
    """A cluster with a reassignment from brokers 1 and 2 to the target."""
    cluster = Cluster(brokers=5)
    cluster.create("t", (1, 2))
    assert code_of(reassign(cluster, target)) == ErrorCode.NONE
    return cluster


def reassign(
    cluster: Cluster,
    target: tuple[int, ...] | None,
    *,
    name: str = "t",
    index: int = 0,
    may_change: bool = True,
) -> Decision:
    partition = ReassignablePartition(partition_index=index, replicas=target)
    topic = ReassignableTopic(name=name, partitions=[partition])
    request = AlterPartitionReassignmentsRequest(
        topics=[topic], allow_replication_factor_change=may_change
    )
    return cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)


def code_of(decision: Decision) -> int:
    (topic,) = decision.response.responses
    code: int = topic.partitions[0].error_code
    return code


def set_isr(cluster: Cluster, *isr: int) -> tuple[int, list[object]]:
    """Send the leader's AlterPartition with this ISR; return the error code and the records."""
    partition = cluster.state.partitions[TOPIC, 0]
    result, records = alter_isr(
        cluster,
        isr,
        sender=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    return result.error_code, records


def test_v10_a_reassignment_first_adds_the_new_replicas() -> None:
    """C228."""
    cluster = Cluster(brokers=4)
    cluster.create("t", (1, 2))
    assert reassign(cluster, (3, 4)).records == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=(3, 4, 1, 2),
            adding_replicas=(3, 4),
            removing_replicas=(1, 2),
            directories=tuple(map(directory, (3, 4, 1, 2))),
        )
    ]


def test_v10_old_replicas_are_removed_once_new_ones_are_in_sync() -> None:
    """C228."""
    cluster = reassigning_cluster()
    assert set_isr(cluster, 1, 2, 3)[0] == ErrorCode.NONE
    code, records = set_isr(cluster, 1, 2, 3, 4)
    assert code == ErrorCode.NEW_LEADER_ELECTED  # broker 1 no longer leads
    assert records == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC,
            isr=(3, 4),
            leader=3,
            replicas=(3, 4),
            adding_replicas=(),
            removing_replicas=(),
            directories=(directory(3), directory(4)),
        )
    ]


def test_v10_added_replicas_are_waited_for_and_the_leader_stays() -> None:
    """V10, C226: nothing is removed, so the leader epoch stays as well."""
    cluster = reassigning_cluster((1, 2, 3, 4))
    during = cluster.committed.partitions[TOPIC, 0]
    assert (during.replicas, during.adding, during.removing) == ((1, 2, 3, 4), (3, 4), ())
    set_isr(cluster, 1, 2, 3)
    assert cluster.committed.partitions[TOPIC, 0].reassigning
    set_isr(cluster, 1, 2, 3, 4)
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.reassigning, after.replicas, after.isr) == (False, (1, 2, 3, 4), (1, 2, 3, 4))
    assert (after.leader, after.leader_epoch) == (1, 0)


def test_v10_the_next_controller_completes_a_reassignment() -> None:
    """V10, V14, C233: the log has the whole state of a reassignment."""
    cluster = reassigning_cluster()
    set_isr(cluster, 1, 2, 3)
    cluster.controller.resign()
    cluster.controller.activate(cluster.bootstrap, cluster.now)
    set_isr(cluster, 1, 2, 3, 4)
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.replicas, after.isr, after.leader) == ((3, 4), (3, 4), 3)


def test_v10_v24_an_unclean_election_completes_a_reassignment() -> None:
    """The new leader is the replica that was waited for; no other change may ever follow."""
    cluster = Cluster(brokers=3)
    cluster.create("t", (1, 2), configs={"unclean.leader.election.enable": "true"})
    assert code_of(reassign(cluster, (2, 3))) == ErrorCode.NONE
    stop_brokers(cluster, 3, 2, 1)
    cluster.heartbeat(3)
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.leader, after.isr, after.reassigning) == (3, (3,), False)
    assert after.replicas == (2, 3)


def test_v10_v24_an_election_from_the_elr_completes_a_reassignment() -> None:
    """The removed replicas leave the ELR, too."""
    cluster = Cluster(brokers=3, elr=True)
    cluster.create("t", (1, 2, 3), configs={"min.insync.replicas": "2"})
    stop_brokers(cluster, 1, 2, 3)
    assert code_of(reassign(cluster, (2,))) == ErrorCode.NONE
    before = cluster.committed.partitions[TOPIC, 0]
    assert (before.isr, before.elr, before.removing) == ((), (2, 3), (1, 3))
    cluster.heartbeat(2)
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())
    assert (after.replicas, after.reassigning) == ((2,), False)


def test_v10_removing_a_replica_bumps_the_epoch_of_a_leader_that_stays() -> None:
    """C227."""
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    reassign(cluster, (1,))
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.leader, after.leader_epoch, after.replicas, after.isr) == (1, 1, (1,), (1,))


def test_v10_reordering_replicas_completes_at_once() -> None:
    """C229."""
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    reassign(cluster, (2, 1))
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.replicas, after.leader, after.leader_epoch) == ((2, 1), 1, 0)
    assert after.directories == (directory(2), directory(1))


def test_v10_a_cancelled_reassignment_restores_the_replicas() -> None:
    """C230."""
    cluster = reassigning_cluster()
    set_isr(cluster, 1, 2, 3)
    reassign(cluster, None)
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.replicas, after.isr, after.adding, after.removing) == ((1, 2), (1, 2), (), ())


def test_v10_cancelling_moves_leadership_to_an_old_replica() -> None:
    """C232."""
    cluster = reassigning_cluster()
    set_isr(cluster, 1, 2, 3)
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    assert cluster.committed.partitions[TOPIC, 0].leader == 3
    reassign(cluster, None)
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.replicas, after.isr, after.leader) == ((1, 2), (2,), 2)


def test_v10_no_cancel_if_only_new_replicas_are_in_sync() -> None:
    """C232."""
    cluster = reassigning_cluster()
    set_isr(cluster, 1, 3)
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    assert code_of(reassign(cluster, None)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_v10_a_replaced_reassignment_removes_only_its_additions() -> None:
    """C231."""
    cluster = reassigning_cluster((3, 4))
    set_isr(cluster, 1, 2, 3)
    reassign(cluster, (4, 5))
    replaced = cluster.committed.partitions[TOPIC, 0]
    assert (replaced.replicas, replaced.isr) == ((4, 5, 1, 2), (1, 2))
    assert (replaced.adding, replaced.removing) == ((4, 5), (1, 2))
    reassign(cluster, None)
    assert cluster.committed.partitions[TOPIC, 0].replicas == (1, 2)


def test_v10_a_reassignment_with_only_new_replicas_in_sync_is_replaced() -> None:
    cluster = reassigning_cluster((3, 4))
    set_isr(cluster, 1, 3)
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    reassign(cluster, (4, 5))
    replaced = cluster.committed.partitions[TOPIC, 0]
    assert (replaced.replicas, replaced.isr, replaced.leader) == ((4, 5, 1, 2, 3), (3,), 3)


def test_v10_reassigning_to_the_old_replicas_ends_the_reassignment() -> None:
    cluster = reassigning_cluster()
    reassign(cluster, (1, 2))
    after = cluster.committed.partitions[TOPIC, 0]
    assert (after.replicas, after.reassigning) == ((1, 2), False)


def test_v10_invalid_reassignments_are_refused() -> None:
    """C235."""
    cluster = Cluster(brokers=3)
    cluster.create("t", (1, 2))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(reassign(cluster, (1,), name="x")) == unknown
    assert code_of(reassign(cluster, (1,), index=3)) == unknown
    assert code_of(reassign(cluster, (9,))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(reassign(cluster, ())) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(reassign(cluster, None)) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert (
        code_of(reassign(cluster, (1,), may_change=False)) == ErrorCode.INVALID_REPLICATION_FACTOR
    )
    assert code_of(reassign(cluster, (3, 1), may_change=False)) == ErrorCode.NONE


def test_duplicate_partitions_are_refused() -> None:
    """C235."""
    cluster = Cluster(brokers=3)
    cluster.create("t", (1, 2))
    partition = ReassignablePartition(partition_index=0, replicas=(3,))
    topic = ReassignableTopic(name="t", partitions=[partition, partition])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    decision = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    (result,) = decision.response.responses
    assert [partition.error_code for partition in result.partitions] == [
        ErrorCode.INVALID_REQUEST
    ] * 2
    assert decision.records == []


def test_more_reassignments_than_a_batch_holds_are_refused_together() -> None:
    cluster = Cluster(brokers=2)
    for name in ("t", "u", "v"):
        cluster.create(name, *[(1,)] * 4000)
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=(2,)) for index in range(4000)
            ],
        )
        for name in ("t", "u", "v")
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    decision = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    assert decision.records == []
    assert decision.response.error_code == ErrorCode.POLICY_VIOLATION


def test_v10_ongoing_reassignments_are_listed() -> None:
    cluster = reassigning_cluster()
    running = OngoingPartitionReassignment(
        partition_index=0,
        replicas=(3, 4, 1, 2),
        adding_replicas=(3, 4),
        removing_replicas=(1, 2),
    )
    cluster.create("still", (1,))
    for topics in (
        None,
        [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=(0, 1))
            for name in ("t", "still", "unknown")
        ],
    ):
        request = ListPartitionReassignmentsRequest(topics=topics)
        decision = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request)
        assert decision.records == []
        (topic,) = decision.response.topics
        assert (topic.name, topic.partitions) == ("t", [running])


@pytest.mark.parametrize(
    ("requested", "is_listed"),
    [(None, True), ((METADATA_TOPIC, 0), True), ((METADATA_TOPIC, 1), False), (("t", 0), False)],
)
def test_r2_target_voters_are_listed_as_a_reassignment(
    requested: tuple[str, int] | None, is_listed: bool
) -> None:
    voters = voters_by_id(1, 2, 3)
    cluster = Cluster(voters=voters.replace(targets=(3, 4)))
    topics = None
    if requested is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=requested[0], partition_indexes=[requested[1]])
        ]
    request = ListPartitionReassignmentsRequest(topics=topics)
    listed = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request).response.topics
    running = OngoingPartitionReassignment(
        partition_index=0,
        replicas=(1, 2, 3, 4),
        adding_replicas=(4,),
        removing_replicas=(1, 2),
    )
    expected = [OngoingTopicReassignment(name=METADATA_TOPIC, partitions=[running])]
    assert listed == (expected if is_listed else [])
    cluster.voters = voters
    assert cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request).response.topics == []

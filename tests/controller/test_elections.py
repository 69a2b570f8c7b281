"""V2: leaders come from the ISR, from the ELR if that is empty, or uncleanly by config."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import TOPIC
from kraftlog.controller.controller import AFTER_REFUSAL_MS
from kraftlog.controller.decision import Decision
from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import RECOVERING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from tests.controller.cluster import Cluster, directory

PREFERRED, UNCLEAN = 0, 1


def stop_brokers(cluster: Cluster, *brokers: int) -> None:
    for broker in brokers:
        cluster.controller.note_broker_down(broker)
        cluster.pass_time(0)


def elect(cluster: Cluster, kind: int, *partitions: int) -> tuple[list[int], list[object]]:
    """Elect leaders of partitions of topic t; return their error codes, and the records."""
    topics = [TopicPartitions(topic="t", partitions=partitions)]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
    decision = cluster.ask(ApiKey.ELECT_LEADERS, request)
    (topic,) = decision.response.replica_election_results
    return [result.error_code for result in topic.partition_result], list(decision.records)


def cluster_after_a_restart() -> tuple[Cluster, bytes]:
    """Broker 1 is in sync again after a restart, but broker 2 still leads both partitions."""
    from tests.controller.test_isr import alter_isr

    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2), (2, 1))
    stop_brokers(cluster, 1)
    cluster.heartbeat(1)
    partition = cluster.state.partitions[topic, 0]
    alter_isr(
        cluster,
        (2, 1),
        sender=2,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    return cluster, topic


def test_v2_a_preferred_election_moves_leadership() -> None:
    cluster, topic = cluster_after_a_restart()
    codes, records = elect(cluster, PREFERRED, 0, 1, 7)
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert records == [PartitionChangeRecord(partition_id=0, topic_id=topic, leader=1)]


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_v1_a_partition_named_twice_is_elected_once(kind: int) -> None:
    """Its leader epoch grows by one; both results are those of the election."""
    cluster, topic = cluster_after_a_restart()
    if kind == UNCLEAN:
        stop_brokers(cluster, 1, 2)
        cluster.heartbeat(1)
    epoch = cluster.committed.partitions[topic, 0].leader_epoch
    topics = [
        TopicPartitions(topic="t", partitions=(0, 0)),
        TopicPartitions(topic="t", partitions=(0,)),
    ]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
    decision = cluster.ask(ApiKey.ELECT_LEADERS, request)
    results = decision.response.replica_election_results
    assert [[it.error_code for it in each.partition_result] for each in results] == [[0, 0], [0]]
    assert len(decision.records) == 1
    assert cluster.committed.partitions[topic, 0].leader_epoch == epoch + 1


def test_electing_all_returns_only_partitions_that_needed_an_election() -> None:
    """C206."""
    cluster, topic = cluster_after_a_restart()
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
    decision = cluster.ask(ApiKey.ELECT_LEADERS, request)
    (results,) = decision.response.replica_election_results
    assert [result.partition_id for result in results.partition_result] == [0]
    assert cluster.committed.partitions[topic, 0].leader == 1


def test_preferred_leaders_are_elected_periodically() -> None:
    cluster, topic = cluster_after_a_restart()
    cluster.now_ms += 300_000
    cluster.heartbeat(1)
    cluster.heartbeat(2)
    assert cluster.pass_time(0) == [PartitionChangeRecord(partition_id=0, topic_id=topic, leader=1)]
    assert cluster.pass_time(0) == []


def cluster_that_elects_one_at_a_time() -> Cluster:
    """Two partitions lack a leader, and each decision of a periodic election elects one leader."""
    cluster = Cluster(brokers=2, elections_at_once=1, session_timeout_ms=10**9)
    cluster.create("t", (1, 2), (1, 2))
    stop_brokers(cluster, 1, 2)
    cluster.heartbeat(1)
    cluster.configure(TOPIC, "t", {"unclean.leader.election.enable": "true"})
    return cluster


def test_a_periodic_election_continues_until_it_is_complete() -> None:
    cluster = cluster_that_elects_one_at_a_time()
    assert decide_all_due(cluster) == []
    assert cluster.controller.deadline() == cluster.now_ms + 300_000
    cluster.now_ms += 300_000
    assert decide_all_due(cluster) == [1, 1]
    assert [p.leader for p in cluster.committed.partitions.values()] == [1, 1]


def test_a_refused_periodic_election_backs_off() -> None:
    """Otherwise a controller that is about to resign would repeat the decision endlessly."""
    cluster = cluster_that_elects_one_at_a_time()
    cluster.now_ms += 300_000
    for _ in range(2):
        assert cluster.controller.poll(cluster.now, len(cluster.log)) is not None
        cluster.controller.proposal_failed(cluster.now)
        assert cluster.controller.poll(cluster.now, len(cluster.log)) is None
        assert cluster.controller.deadline() == cluster.now_ms + AFTER_REFUSAL_MS
        cluster.now_ms += AFTER_REFUSAL_MS
    assert decide_all_due(cluster) == [1, 1]


def decide_all_due(cluster: Cluster) -> list[int]:
    """Append all decisions that are due; return the number of records of each."""
    due = []
    while (decided := cluster.controller.poll(cluster.now, len(cluster.log))) is not None:
        due.append(len(cluster.append(decided).records))
    return due


def test_v2_a_preferred_replica_outside_the_isr_is_not_elected() -> None:
    """C202."""
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    stop_brokers(cluster, 1)
    cluster.heartbeat(1)
    codes, records = elect(cluster, PREFERRED, 0)
    assert (codes, records) == ([ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], [])


def test_v2_a_requested_unclean_leader_is_recovering() -> None:
    """C201."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    stop_brokers(cluster, 1, 2)
    cluster.heartbeat(1)  # not in the ISR: 2 was the last one in it
    assert cluster.committed.partitions[topic, 0].leader == -1
    codes, records = elect(cluster, UNCLEAN, 0)
    assert codes == [ErrorCode.NONE]
    assert records == [
        PartitionChangeRecord(
            partition_id=0, topic_id=topic, isr=(1,), leader=1, leader_recovery_state=RECOVERING
        )
    ]
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.ELECTION_NOT_NEEDED]


def test_v2_no_unclean_election_without_live_replicas() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", (1,))
    stop_brokers(cluster, 1)
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_v2_a_topic_config_allows_unclean_elections() -> None:
    """C201."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2), configs={"unclean.leader.election.enable": "true"})
    stop_brokers(cluster, 1, 2)
    cluster.heartbeat(1)
    elected = cluster.committed.partitions[topic, 0]
    assert (elected.leader, elected.isr, elected.recovery) == (1, (1,), RECOVERING)


def test_an_unknown_kind_of_election_is_refused() -> None:
    request = ElectLeadersRequest(election_type=9, topic_partitions=None)
    decision = Cluster().ask(ApiKey.ELECT_LEADERS, request)
    assert decision.response.error_code == ErrorCode.INVALID_REQUEST


# Eligible replicas -------------------------------------------------------------------------------


def cluster_with_min_isr_two() -> tuple[Cluster, bytes]:
    cluster = Cluster(brokers=3, elr=True)
    return cluster, cluster.create("t", (1, 2, 3), configs={"min.insync.replicas": "2"})


def test_elr_keeps_replicas_that_leave_an_isr_below_the_minimum() -> None:
    """C210."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1)
    above = cluster.committed.partitions[topic, 0]
    assert (above.isr, above.elr) == ((2, 3), ())
    stop_brokers(cluster, 2)
    below = cluster.committed.partitions[topic, 0]
    assert (below.isr, below.elr, below.leader) == ((3,), (2,), 3)
    stop_brokers(cluster, 3)
    empty = cluster.committed.partitions[topic, 0]
    assert (empty.isr, empty.elr, empty.leader, empty.last_known_elr) == ((), (2, 3), -1, (3,))


def test_elr_an_eligible_replica_leads_as_cleanly_as_one_in_sync() -> None:
    """C199."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    cluster.heartbeat(2)
    after_return = cluster.committed.partitions[topic, 0]
    assert (after_return.leader, after_return.isr, after_return.elr, after_return.recovery) == (
        2,
        (2,),
        (3,),
        0,
    )
    assert after_return.last_known_elr == ()


def test_elr_a_replica_outside_the_elr_does_not_lead() -> None:
    """C198, C199."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    cluster.heartbeat(1)
    assert cluster.committed.partitions[topic, 0].leader == -1


def test_elr_a_broker_that_stopped_uncleanly_leaves_the_elr() -> None:
    """C203."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    cluster.register(2, incarnation=2)
    after = cluster.committed.partitions[topic, 0]
    assert (after.elr, after.last_known_elr) == ((3,), (3,))


def test_elr_a_broker_that_stopped_cleanly_stays_in_the_elr() -> None:
    """C203."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    cluster.register(2, incarnation=2, previous_broker_epoch=cluster.state.brokers[2].epoch)
    assert cluster.committed.partitions[topic, 0].elr == (2, 3)


def test_elr_v18_a_broker_that_lacks_a_directory_has_not_kept_its_records() -> None:
    """Its replicas in that directory may start empty even after a clean shutdown."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    epoch = cluster.state.brokers[2].epoch
    cluster.register(2, incarnation=2, previous_broker_epoch=epoch, log_dirs=[directory(2, 2)])
    assert cluster.committed.partitions[topic, 0].elr == (3,)


def test_elr_the_last_leader_does_not_lead_while_another_is_eligible() -> None:
    """C199: the last leader stopped uncleanly, and broker 2 has all committed records."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    cluster.register(3, incarnation=2)
    before = cluster.committed.partitions[topic, 0]
    assert (before.elr, before.last_known_elr) == ((2,), (3,))
    cluster.heartbeat(3)
    assert cluster.committed.partitions[topic, 0].leader == -1


@pytest.mark.parametrize(("returning", "leader"), [(3, 3), (2, -1)])
def test_elr_the_last_leader_leads_if_all_stopped_uncleanly(returning: int, leader: int) -> None:
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    cluster.register(2, incarnation=2)
    cluster.register(3, incarnation=2)
    assert cluster.committed.partitions[topic, 0].elr == ()
    cluster.heartbeat(returning)
    after = cluster.committed.partitions[topic, 0]
    assert after.leader == leader
    assert (after.recovery == RECOVERING) == (leader == 3)


# Directories that cannot be written -----------------------------------------------------------


def leaders_of(cluster: Cluster, topic: bytes) -> list[int]:
    partitions = cluster.committed.partitions
    return [partitions[key].leader for key in sorted(partitions) if key[0] == topic]


def test_v18_leaders_move_from_a_directory_that_cannot_be_written() -> None:
    """The replicas stay in the ISR; the leader epoch fences the former leader."""
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", (1, 2), (2, 1), (2, 3), (1, 3))
    before = cluster.committed.partitions.copy()
    records = cluster.heartbeat(1, unwritable_log_dirs=[directory(1)]).records
    assert leaders_of(cluster, topic) == [2, 2, 2, 3]
    assert len(records) == 1 + 2, "the broker and two partitions"
    for key, partition in cluster.committed.partitions.items():
        moved = partition.leader != before[key].leader
        assert partition.isr == before[key].isr
        assert partition.leader_epoch == before[key].leader_epoch + moved


def test_v18_leaders_do_not_return_while_the_directory_cannot_be_written() -> None:
    """Not by preferred elections, on request or periodic, nor when the broker reports again."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    cluster.heartbeat(1, unwritable_log_dirs=[directory(1)])
    codes, records = elect(cluster, PREFERRED, 0)
    assert (codes, records) == ([ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], [])
    for _ in range(100):
        cluster.heartbeat(1, unwritable_log_dirs=[directory(1)])
        cluster.heartbeat(2)
        assert cluster.pass_time(5000) == []
    assert cluster.heartbeat(1, unwritable_log_dirs=[]).records
    assert leaders_of(cluster, topic) == [2], "only a preferred election moves leaders back"
    codes, _ = elect(cluster, PREFERRED, 0)
    assert (codes, leaders_of(cluster, topic)) == ([ErrorCode.NONE], [1])


def test_v18_a_leader_that_cannot_write_stays_for_readers_if_none_can() -> None:
    """As soon as one replica can be written, it leads."""
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", (1, 2, 3))
    for broker in (1, 2, 3):
        cluster.heartbeat(broker, unwritable_log_dirs=[directory(broker)])
    assert leaders_of(cluster, topic) == [3]
    epoch = cluster.committed.partitions[topic, 0].leader_epoch
    cluster.heartbeat(2, unwritable_log_dirs=[])
    partition = cluster.committed.partitions[topic, 0]
    assert (partition.leader, partition.leader_epoch) == (2, epoch + 1)
    assert len(cluster.heartbeat(1, unwritable_log_dirs=[]).records) == 1


def test_v18_a_replica_that_can_write_leads_when_it_joins_the_isr() -> None:
    from tests.controller.test_isr import alter_isr

    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    alter_isr(cluster, (1,), partition_epoch=0)
    cluster.heartbeat(1, unwritable_log_dirs=[directory(1)])
    assert leaders_of(cluster, topic) == [1]
    partition = cluster.state.partitions[topic, 0]
    alter_isr(cluster, (1, 2), partition_epoch=partition.partition_epoch)
    assert leaders_of(cluster, topic) == [2]


def test_v18_only_replicas_in_the_directory_are_affected() -> None:
    cluster = Cluster()
    for broker in (1, 2):
        cluster.register(broker, log_dirs=[directory(broker), directory(broker, 2)])
        cluster.heartbeat(broker)
    topic = cluster.create("t", (1, 2), (1, 2))
    for index in (0, 1):
        record = PartitionChangeRecord(
            partition_id=index,
            topic_id=topic,
            directories=(directory(1, 1 + index), directory(2)),
        )
        cluster.append(Decision([record], None))
    cluster.heartbeat(1, unwritable_log_dirs=[directory(1, 2)])
    assert leaders_of(cluster, topic) == [1, 2]


def test_v2_a_failed_leader_is_replaced_by_a_replica_that_can_write() -> None:
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", (1, 2, 3))
    cluster.heartbeat(2, unwritable_log_dirs=[directory(2)])
    stop_brokers(cluster, 1)
    assert leaders_of(cluster, topic) == [3]
    stop_brokers(cluster, 3)
    assert leaders_of(cluster, topic) == [2], "rather than none"


def test_v4_a_replica_that_can_write_leads_a_new_partition() -> None:
    cluster = Cluster(brokers=2)
    cluster.heartbeat(1, unwritable_log_dirs=[directory(1)])
    topic = cluster.create("t", (1, 2))
    assert leaders_of(cluster, topic) == [2]
    sole = cluster.create("sole", (1,))
    assert leaders_of(cluster, sole) == [1]

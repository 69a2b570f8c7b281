"""V2, V5: a broker that has shut down cleanly goes on leading what no other broker could lead."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from tests.controller.cluster import SESSION_MS, Cluster, directory


def restart(cluster: Cluster, **changes: Any) -> list[Any]:
    """Register broker 1 after a clean shutdown; return all records but the registration."""
    epoch = cluster.state.brokers[1].epoch
    fields = {
        "previous_broker_epoch": epoch,
        "log_dirs": cluster.state.brokers[1].directories,
        **changes,
    }
    decision = cluster.register(1, incarnation=2, **fields)
    assert decision.response.error_code == 0
    return list(decision.records[:-1])


def leader(cluster: Cluster, topic: bytes) -> tuple[int, int]:
    """The leader of a topic's only partition, and its epoch."""
    partition = cluster.committed.partitions[topic, 0]
    return partition.leader, partition.leader_epoch


def cluster_with_starting_leader() -> tuple[Cluster, bytes]:
    """Broker 1 is starting: fenced, and still the leader of a partition with no other replica."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1,))
    cluster.controller.note_broker_down(2)
    cluster.pass_time(0)
    assert restart(cluster) == []
    assert cluster.committed.brokers[1].fenced
    assert leader(cluster, topic) == (1, 0)
    return cluster, topic


@pytest.mark.parametrize("elr", [False, True])
def test_v5_a_sole_replica_keeps_its_leader_over_a_clean_restart(elr: bool) -> None:
    cluster = Cluster(brokers=1, elr=elr)
    topic = cluster.create("t", (1,))
    assert restart(cluster) == []
    [unfenced] = cluster.heartbeat(1).records
    assert isinstance(unfenced, BrokerRegistrationChangeRecord)
    assert leader(cluster, topic) == (1, 0)


@pytest.mark.parametrize(
    "changes", [{"previous_broker_epoch": -1}, {"log_dirs": [directory(1, 2)]}]
)
def test_v2_a_sole_replica_gets_a_new_epoch_if_its_log_may_be_shorter(
    changes: dict[str, Any],
) -> None:
    """After a crash, or without the directory, other records may get the same offsets."""
    cluster = Cluster(brokers=1)
    topic = cluster.create("t", (1,))
    cluster.register(1, log_dirs=[directory(1), directory(1, 2)])
    change = PartitionChangeRecord(partition_id=0, topic_id=topic, leader=-1)
    assert restart(cluster, **changes) == [change]


def test_v2_a_clean_restart_moves_the_leaders_that_others_can_replace() -> None:
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2), (2, 1))
    alone = cluster.create("u", (1,))
    assert restart(cluster) == [
        PartitionChangeRecord(partition_id=0, topic_id=topic, isr=(2,), leader=2),
        PartitionChangeRecord(partition_id=1, topic_id=topic, isr=(2,)),
    ]
    assert leader(cluster, alone) == (1, 0)


def test_v2_a_broker_that_fails_while_it_starts_leads_no_longer() -> None:
    cluster, topic = cluster_with_starting_leader()
    assert cluster.pass_time(SESSION_MS) == []
    assert cluster.pass_time(1) == [
        PartitionChangeRecord(partition_id=0, topic_id=topic, leader=-1)
    ]
    assert cluster.pass_time(SESSION_MS + 1) == []


def test_v2_v14_the_next_controller_ends_the_leadership_of_a_failed_broker() -> None:
    cluster, topic = cluster_with_starting_leader()
    cluster.controller.resign()
    cluster.append(cluster.controller.activate(cluster.bootstrap, cluster.now))
    cluster.pass_time(SESSION_MS + 1)
    assert leader(cluster, topic) == (-1, 1)


@pytest.mark.parametrize(
    "heartbeat", [{"want_shut_down": True}, {"offline_log_dirs": [directory(1)]}]
)
def test_v3_v18_a_starting_broker_that_stops_or_fails_leads_no_longer(
    heartbeat: dict[str, Any],
) -> None:
    cluster, topic = cluster_with_starting_leader()
    cluster.heartbeat(1, want_fence=True, **heartbeat)
    assert leader(cluster, topic) == (-1, 1)
    assert cluster.heartbeat(1, want_fence=True, **heartbeat).records == []


def test_v2_refused_end_of_leadership_is_retried_a_session_later() -> None:
    cluster, _ = cluster_with_starting_leader()
    cluster.now_ms += SESSION_MS + 1
    due = cluster.controller.poll(cluster.now, len(cluster.log))
    assert due is not None
    cluster.controller.proposal_failed(cluster.now)
    assert cluster.pass_time(SESSION_MS) == []
    assert cluster.pass_time(1) == due.records

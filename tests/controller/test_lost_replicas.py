"""V18, V19: a replica that has lost its log does not lead, except where all have, or on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import RECOVERING, DirectoryId
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.controller.cluster import Cluster, directory
from tests.controller.test_elections import UNCLEAN, elect, stop_brokers
from tests.controller.test_features import assign

if TYPE_CHECKING:
    from collections.abc import Callable

#: Replicas of topic t, in the order of preference.
REPLICAS = (1, 2, 3)


def after_all_stopped(*, elr: bool = True) -> tuple[Cluster, bytes]:
    """Brokers 2 and 3 stopped first, then 1: it was the last leader, and in sync alone."""
    cluster = Cluster(brokers=3, elr=elr)
    topic = cluster.create("t", REPLICAS)
    stop_brokers(cluster, 2, 3, 1)
    return cluster, topic


def return_uncleanly(cluster: Cluster, *brokers: int) -> None:
    for broker in brokers:
        cluster.register(broker, incarnation=2)


def unfence(cluster: Cluster, *brokers: int) -> None:
    for broker in brokers:
        cluster.heartbeat(broker)


@pytest.mark.parametrize("elr", [True, False])
def test_v19_last_leader_that_lost_its_log_is_not_elected(elr: bool) -> None:
    cluster, topic = after_all_stopped(elr=elr)
    return_uncleanly(cluster, *REPLICAS)
    assign(cluster, DirectoryId.LOST, topic, 0)
    unfence(cluster, *REPLICAS)
    assert cluster.committed.partitions[topic, 0].leader == -1


@pytest.mark.parametrize("elr", [True, False])
def test_v19_last_leader_on_another_disk_is_not_elected(elr: bool) -> None:
    cluster, topic = after_all_stopped(elr=elr)
    cluster.register(1, incarnation=2, log_dirs=[directory(1, 2)])
    unfence(cluster, *REPLICAS)
    assert cluster.committed.partitions[topic, 0].leader == -1


def test_v21_last_leader_leads_when_its_disk_returns() -> None:
    cluster, topic = after_all_stopped()
    cluster.register(1, incarnation=2, log_dirs=[directory(1, 2)])
    unfence(cluster, *REPLICAS)
    stop_brokers(cluster, 1)
    cluster.register(1, incarnation=3)
    unfence(cluster, 1)
    assert cluster.committed.partitions[topic, 0].leader == 1


def register_without_a_directory(cluster: Cluster) -> None:
    cluster.register(1, incarnation=2, log_dirs=[directory(1, 2)])


def register_with_both(cluster: Cluster) -> None:
    cluster.register(1, incarnation=2, log_dirs=[directory(1), directory(1, 2)])


def register_again_after_its_removal(cluster: Cluster) -> None:
    cluster.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
    register_without_a_directory(cluster)


def lose_a_directory(cluster: Cluster) -> None:
    cluster.heartbeat(1, offline_log_dirs=[directory(1)])


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize(
    "assigned", [DirectoryId.UNASSIGNED, DirectoryId.MIGRATING, directory(1, 2)]
)
@pytest.mark.parametrize(
    "lose",
    [
        register_without_a_directory,
        register_with_both,
        register_again_after_its_removal,
        lose_a_directory,
    ],
)
def test_v19_replica_maybe_in_a_lost_directory_does_not_lead(
    lose: Callable[[Cluster], None], assigned: bytes, is_running: bool, elr: bool
) -> None:
    """It leads again once its broker reports where it has found the log."""
    cluster = Cluster(brokers=3, elr=elr)
    cluster.register(1, log_dirs=[directory(1), directory(1, 2)])
    topic = cluster.create("t", REPLICAS)
    assign(cluster, assigned, topic, 0)
    stop_brokers(cluster, 2, 3)
    if not is_running:
        stop_brokers(cluster, 1)
    lose(cluster)
    cluster.heartbeat(1, offline_log_dirs=[])
    after = cluster.committed.partitions[topic, 0]
    is_lost = assigned != directory(1, 2) and lose is not register_with_both
    assert (after.leader, after.directories[0]) == (
        (-1, DirectoryId.FAILED) if is_lost else (1, assigned)
    )
    assign(cluster, directory(1, 2), topic, 0)
    assert cluster.committed.partitions[topic, 0].leader == 1


@pytest.mark.parametrize("elr", [True, False])
def test_v18_failed_directory_is_recorded_before_its_broker_is_unfenced(elr: bool) -> None:
    """One heartbeat would otherwise elect a replica in it, and no later one depose it."""
    cluster = Cluster(brokers=3, elr=elr)
    cluster.register(1, log_dirs=[directory(1), directory(1, 2)])
    topic = cluster.create("t", REPLICAS)
    assign(cluster, directory(1), topic, 0)
    stop_brokers(cluster, 2, 3, 1)
    lose_a_directory(cluster)
    fenced = [cluster.committed.brokers[1].fenced]
    unfence(cluster, 1)
    fenced.append(cluster.committed.brokers[1].fenced)
    assert fenced == [True, False]
    assert cluster.committed.partitions[topic, 0].leader == -1


def test_v19_lost_replica_leaves_the_elr() -> None:
    """It was a clean shutdown: only the report tells that its log is gone."""
    cluster = Cluster(brokers=3, elr=True)
    topic = cluster.create("t", REPLICAS, configs={"min.insync.replicas": "3"})
    stop_brokers(cluster, 1)
    assert cluster.committed.partitions[topic, 0].elr == (1,)
    cluster.register(1, incarnation=2, previous_broker_epoch=cluster.state.brokers[1].epoch)
    assert cluster.committed.partitions[topic, 0].elr == (1,)
    assign(cluster, DirectoryId.LOST, topic, 0)
    assert cluster.committed.partitions[topic, 0].elr == ()


def test_v21_replica_whose_log_failed_stays_in_the_elr() -> None:
    """It may be readable again, and is the only way back then."""
    cluster = Cluster(brokers=3, elr=True)
    topic = cluster.create("t", REPLICAS, configs={"min.insync.replicas": "3"})
    assign(cluster, DirectoryId.FAILED, topic, 0)
    failed = cluster.committed.partitions[topic, 0]
    assert (failed.isr, failed.elr, failed.leader) == ((2, 3), (1,), 2)
    stop_brokers(cluster, 2, 3)
    assert cluster.committed.partitions[topic, 0].leader == -1
    assign(cluster, directory(1), topic, 0)
    assert cluster.committed.partitions[topic, 0].leader == 1


@pytest.mark.parametrize("elr", [True, False])
def test_v18_last_in_sync_replica_whose_log_failed_does_not_lead(elr: bool) -> None:
    """The partition is offline, so that an unclean election is possible; repaired, it leads."""
    cluster = Cluster(brokers=3, elr=elr)
    topic = cluster.create("t", REPLICAS)
    stop_brokers(cluster, 2, 3)
    assign(cluster, DirectoryId.FAILED, topic, 0)
    assert cluster.committed.partitions[topic, 0].leader == -1
    assign(cluster, directory(1), topic, 0)
    assert cluster.committed.partitions[topic, 0].leader == 1


def test_v18_unclean_election_replaces_a_leader_whose_log_failed() -> None:
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", REPLICAS)
    stop_brokers(cluster, 2, 3)
    unfence(cluster, 2, 3)
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.ELECTION_NOT_NEEDED]
    assign(cluster, DirectoryId.FAILED, topic, 0)
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.NONE]
    after = cluster.committed.partitions[topic, 0]
    assert (after.leader, after.isr, after.recovery) == (2, (2,), RECOVERING)


def test_v19_unclean_election_prefers_a_replica_with_a_log() -> None:
    cluster, topic = after_all_stopped()
    return_uncleanly(cluster, 1, 3)
    assign(cluster, DirectoryId.LOST, topic, 0)
    unfence(cluster, 1, 3)
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.NONE]
    assert cluster.committed.partitions[topic, 0].leader == 3


@pytest.mark.parametrize("lost", [DirectoryId.LOST, directory(1, 9)])
def test_v19_unclean_election_may_choose_a_replica_without_its_log(lost: bytes) -> None:
    """The leader's directory is recorded again: it has the log that counts from now on."""
    cluster, topic = after_all_stopped()
    return_uncleanly(cluster, 1)
    assign(cluster, lost, topic, 0)
    unfence(cluster, 1)
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.NONE]
    after = cluster.committed.partitions[topic, 0]
    assert (after.leader, after.isr, after.directories[0]) == (1, (1,), directory(1))
    assert after.recovery == RECOVERING


def test_v19_unclean_election_does_not_choose_a_failed_log() -> None:
    cluster, topic = after_all_stopped()
    return_uncleanly(cluster, 1)
    assign(cluster, DirectoryId.FAILED, topic, 0)
    unfence(cluster, 1)
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert cluster.committed.partitions[topic, 0].leader == -1


def test_v19_no_lost_replica_leads_by_itself() -> None:
    """As after a power loss of all machines: one of them may have kept all, nobody knows which."""
    cluster, topic = after_all_stopped()
    return_uncleanly(cluster, 1)
    assign(cluster, DirectoryId.LOST, topic, 0)
    unfence(cluster, 1)
    assert cluster.committed.partitions[topic, 0].leader == -1
    assert elect(cluster, UNCLEAN, 0)[0] == [ErrorCode.NONE]
    assert cluster.committed.partitions[topic, 0].leader == 1

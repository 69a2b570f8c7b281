"""V21: ELR and last known leader outlive changes of settings while they are the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.controller.decision import RECORDS_IN_BATCH
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import incremental_alter_configs as api
from kraftlog.wire.messages.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from tests.controller.cluster import Cluster, creation, new_topic
from tests.controller.test_elections import cluster_with_min_isr_two, stop_brokers
from tests.controller.test_features import ELR, UNSAFE, update
from tests.controller.test_reassignment import reassign

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage
    from kraftlog.wire.schema import Message

MIN_ISR = "min.insync.replicas"
#: A topic config, or the cluster's value for topics without one.
SCOPES = ((TOPIC, "t"), (BROKER, ""))


def cluster_with_min_isr(scope: tuple[int, str], minimum: str) -> tuple[Cluster, bytes]:
    cluster = Cluster(brokers=3, elr=True)
    topic = cluster.create("t", (1, 2, 3))
    cluster.configure(*scope, {MIN_ISR: minimum})
    return cluster, topic


def partition(cluster: Cluster, topic: bytes, index: int = 0) -> PartitionImage:
    return cluster.committed.partitions[topic, index]


def set_min_isr(cluster: Cluster, scope: tuple[int, str], minimum: str) -> list[Message]:
    """Change min.insync.replicas; return the records after the config's own."""
    first, *others = cluster.configure(*scope, {MIN_ISR: minimum}).records
    kind, name = scope
    assert first == ConfigRecord(
        resource_type=kind, resource_name=name, name=MIN_ISR, value=minimum
    )
    return others


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("minimum", ["1", "3"])
def test_v21_a_changed_min_isr_keeps_the_way_back(scope: tuple[int, str], minimum: str) -> None:
    cluster, topic = cluster_with_min_isr(scope, "2")
    stop_brokers(cluster, 1, 2, 3)
    before = partition(cluster, topic)
    assert (before.isr, before.elr, before.last_known_elr) == ((), (2, 3), (3,))
    assert set_min_isr(cluster, scope, minimum) == []
    assert partition(cluster, topic) == before
    cluster.heartbeat(2)
    after = partition(cluster, topic)
    assert (after.leader, after.isr, after.recovery) == (2, (2,), 0)


@pytest.mark.parametrize("minimum", ["1", "3"])
def test_v21_a_changed_min_isr_keeps_the_last_known_leader(minimum: str) -> None:
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    for broker in (2, 3):
        cluster.register(broker, incarnation=2)
    assert set_min_isr(cluster, (TOPIC, "t"), minimum) == []
    cluster.heartbeat(3)
    assert partition(cluster, topic).leader == 3


@pytest.mark.parametrize("scope", SCOPES)
def test_v21_a_lower_min_isr_clears_the_elr_of_a_leader_that_may_commit(
    scope: tuple[int, str],
) -> None:
    """From then on, the eligible replica lacks what the leader commits alone."""
    cluster, topic = cluster_with_min_isr(scope, "2")
    stop_brokers(cluster, 1, 2)
    assert (partition(cluster, topic).isr, partition(cluster, topic).elr) == ((3,), (2,))
    cleared = PartitionChangeRecord(partition_id=0, topic_id=topic, eligible_leader_replicas=())
    assert set_min_isr(cluster, scope, "1") == [cleared]
    stop_brokers(cluster, 3)
    cluster.heartbeat(2)
    assert partition(cluster, topic).leader == -1


def test_v21_a_min_isr_above_the_isr_keeps_the_elr() -> None:
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2)
    assert set_min_isr(cluster, (TOPIC, "t"), "3") == []
    assert partition(cluster, topic).elr == (2,)


def test_v21_min_isr_of_another_topic_or_overridden_clears_nothing() -> None:
    cluster, topic = cluster_with_min_isr_two()
    cluster.create("other", (1, 2, 3))
    stop_brokers(cluster, 1, 2)
    assert set_min_isr(cluster, (TOPIC, "other"), "3") == []
    assert set_min_isr(cluster, (BROKER, ""), "3") == []
    assert partition(cluster, topic).elr == (2,)
    assert set_min_isr(cluster, (BROKER, ""), "1") == []
    deleted = cluster.configure(TOPIC, "t", {MIN_ISR: None})
    assert len(deleted.records) == 2
    assert partition(cluster, topic).elr == ()


def test_v21_one_request_counts_with_all_its_values() -> None:
    """The topic's own value is deleted, and the cluster's reaches the ISR that is left."""
    cluster, topic = cluster_with_min_isr_two()
    set_min_isr(cluster, (BROKER, ""), "2")
    stop_brokers(cluster, 1, 2)
    resources = [
        api.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[api.AlterableConfig(name=MIN_ISR, config_operation=op, value=value)],
        )
        for kind, name, op, value in ((TOPIC, "t", 1, None), (BROKER, "", 0, "1"))
    ]
    request = api.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    cluster.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    assert partition(cluster, topic).elr == ()


def test_v21_an_elected_leader_that_may_commit_alone_clears_the_elr() -> None:
    """The minimum was lowered while the partition had no leader."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    set_min_isr(cluster, (TOPIC, "t"), "1")
    cluster.heartbeat(2)
    assert (partition(cluster, topic).isr, partition(cluster, topic).elr) == ((2,), ())
    stop_brokers(cluster, 2)
    cluster.heartbeat(3)
    assert partition(cluster, topic).leader == -1


def test_v21_elr_of_more_partitions_than_a_batch_holds_is_cleared() -> None:
    cluster = Cluster(brokers=2, elr=True)
    for name in ("a", "b"):
        half = new_topic(name, *[(1, 2)] * (RECORDS_IN_BATCH // 2 + 1))
        cluster.ask(ApiKey.CREATE_TOPICS, creation(half))
    set_min_isr(cluster, (BROKER, ""), "2")
    stop_brokers(cluster, 1)
    assert len(cluster.state.index.in_elr[1]) == RECORDS_IN_BATCH + 2
    assert len(set_min_isr(cluster, (BROKER, ""), "1")) == RECORDS_IN_BATCH + 2
    assert cluster.state.index.in_elr == {}


# The feature's level -----------------------------------------------------------------------------


@pytest.mark.parametrize(("unclean", "isr"), [((), (2, 3)), ((2,), (3,)), ((2, 3), (3,))])
def test_v21_without_the_feature_those_who_may_lead_are_the_isr(
    unclean: tuple[int, ...], isr: tuple[int, ...]
) -> None:
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    for broker in unclean:
        cluster.register(broker, incarnation=2)
    assert update(cluster, ELR, 0, UNSAFE).records == [
        FeatureLevelRecord(name=ELR, feature_level=0),
        PartitionChangeRecord(partition_id=0, topic_id=topic, isr=isr),
        ClearElrRecord(topic_name=""),
    ]
    after = partition(cluster, topic)
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, isr, (), ())
    cluster.heartbeat(1)
    assert partition(cluster, topic).leader == -1
    cluster.heartbeat(isr[0])
    after = partition(cluster, topic)
    assert (after.leader, after.isr) == (isr[0], isr[:1]), "it waits for nobody who is fenced"


def test_v21_who_is_fenced_becomes_eligible_again_with_the_feature() -> None:
    """Both were the ISR without the feature: the first that returns leads, the other may, too."""
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2, 3)
    update(cluster, ELR, 0, UNSAFE)
    update(cluster, ELR, 1)
    assert partition(cluster, topic).isr == (2, 3)
    cluster.heartbeat(3)
    after = partition(cluster, topic)
    assert (after.leader, after.isr, after.elr) == (3, (3,), (2,))


def test_v21_without_the_feature_no_replica_of_a_leader_stays_eligible() -> None:
    cluster, topic = cluster_with_min_isr_two()
    stop_brokers(cluster, 1, 2)
    update(cluster, ELR, 0, UNSAFE)
    assert (partition(cluster, topic).isr, partition(cluster, topic).elr) == ((3,), ())


def test_v21_the_last_isr_of_before_the_feature_is_the_last_known_leader() -> None:
    """Without the feature, the last member stays in the ISR; it returns after an unclean stop."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    stop_brokers(cluster, 1, 2)
    assert (partition(cluster, topic).isr, partition(cluster, topic).leader) == ((2,), -1)
    update(cluster, ELR, 1)
    for broker in (1, 2):
        cluster.register(broker, incarnation=2)
    assert partition(cluster, topic).last_known_elr == (2,)
    cluster.heartbeat(1)
    assert partition(cluster, topic).leader == -1
    cluster.heartbeat(2)
    assert partition(cluster, topic).leader == 2


# Leader and controller alike ---------------------------------------------------------------------


def test_v20_the_replicas_of_partition_0_do_not_limit_min_isr() -> None:
    """The leader of partition 1 counts its own replicas, and does not commit alone."""
    cluster = Cluster(brokers=3, elr=True)
    topic = cluster.create("t", (1, 2, 3), (1, 2, 3), configs={MIN_ISR: "2"})
    reassign(cluster, (3,), index=0)
    assert partition(cluster, topic).replicas == (3,)
    stop_brokers(cluster, 1, 2)
    assert (partition(cluster, topic, 1).isr, partition(cluster, topic, 1).elr) == ((3,), (2,))

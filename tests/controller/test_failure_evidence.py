"""V2: a broker whose connection ended and that refuses another is fenced before its timeout."""

from __future__ import annotations

from typing import Any

from kraftlog.controller.failure_evidence import IGNORED_AFTER_MISTAKE_MS
from kraftlog.steps import result_of
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.controller.cluster import SESSION_MS, Cluster


def later(cluster: Cluster, ms: int = 100) -> int:
    cluster.now_ms += ms
    return cluster.now_ms


def refuse(cluster: Cluster, broker: int, *, ended_ms: int | None = None, epoch: int = -1) -> None:
    """The connection to a broker has ended now, and another is refused."""
    of = cluster.state.brokers[broker].epoch if epoch < 0 else epoch
    ended_ms = cluster.now_ms if ended_ms is None else ended_ms
    cluster.controller.broker_refused_connection(broker, of, ended_ms, cluster.now)
    cluster.pass_time(0)


def fenced(cluster: Cluster) -> set[int]:
    return {broker.id for broker in cluster.committed.brokers.values() if broker.fenced}


def test_v2_evidence_fences_the_broker_and_moves_its_partitions() -> None:
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", (1, 2, 3))
    later(cluster)
    refuse(cluster, 1)
    assert fenced(cluster) == {1}
    assert cluster.committed.partitions[topic, 0].leader == 2
    assert cluster.committed.partitions[topic, 0].isr == (2, 3)
    assert cluster.controller.evidence.log_lines == [
        "broker 1 is fenced: its connection has ended, and it refuses another"
    ]


def test_v2_evidence_about_another_epoch_does_not_count() -> None:
    cluster = Cluster(brokers=3)
    epoch = cluster.state.brokers[1].epoch
    later(cluster)
    cluster.register(1, life=1)
    refuse(cluster, 1, epoch=epoch - 1)
    assert fenced(cluster) == set()


def test_v2_a_broker_that_was_heard_since_is_not_fenced() -> None:
    cluster = Cluster(brokers=3)
    ended_ms = later(cluster)
    later(cluster)
    cluster.heartbeat(1)
    refuse(cluster, 1, ended_ms=ended_ms)
    assert fenced(cluster) == set()


def test_v3_a_broker_in_controlled_shutdown_may_end() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", (1, 2, 3))
    cluster.heartbeat(1, want_shut_down=True)
    later(cluster)
    refuse(cluster, 1)
    assert fenced(cluster) == set()


def test_v2_evidence_never_fences_the_majority() -> None:
    """A firewall that is reloaded refuses everybody."""
    cluster = Cluster(brokers=5)
    later(cluster)
    for broker in (1, 2, 3, 4, 5):
        refuse(cluster, broker)
    assert fenced(cluster) == {1, 2}
    cluster.now_ms += SESSION_MS + 1
    for broker in (3, 4, 5):
        cluster.heartbeat(broker)
    later(cluster)
    refuse(cluster, 3)
    assert fenced(cluster) == {1, 2, 3}, "the sessions of the first two would be over"


def test_v2_evidence_of_one_turn_counts_before_anybody_is_fenced() -> None:
    cluster = Cluster(brokers=3)
    later(cluster)
    for broker in (1, 2, 1, 3):
        epoch = cluster.state.brokers[broker].epoch
        cluster.controller.broker_refused_connection(broker, epoch, cluster.now_ms, cluster.now)
    cluster.pass_time(0)
    assert fenced(cluster) == {1}
    assert len(cluster.controller.evidence.log_lines) == 1


def test_v2_one_of_two_brokers_may_be_fenced() -> None:
    cluster = Cluster(brokers=2)
    later(cluster)
    refuse(cluster, 1)
    refuse(cluster, 2)
    assert fenced(cluster) == {1}


def test_v2_evidence_is_ignored_for_minutes_after_it_was_wrong() -> None:
    cluster = Cluster(brokers=3)
    later(cluster)
    refuse(cluster, 1)
    later(cluster)
    assert not cluster.heartbeat(1).response.is_fenced
    assert fenced(cluster) == set()
    assert "is alive although it refused" in cluster.controller.evidence.log_lines[-1]
    later(cluster)
    refuse(cluster, 2)
    assert fenced(cluster) == set()
    cluster.now_ms += IGNORED_AFTER_MISTAKE_MS
    for broker in (1, 2, 3):
        cluster.heartbeat(broker)
    later(cluster)
    refuse(cluster, 2)
    assert fenced(cluster) == {2}


def test_v2_a_heartbeat_from_before_the_evidence_does_not_unfence() -> None:
    """It has waited for another decision, and its sender was killed meanwhile."""
    cluster = Cluster(brokers=3)
    arrived_ms = later(cluster)
    refuse(cluster, 1, ended_ms=later(cluster))
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=cluster.state.brokers[1].epoch,
        current_metadata_offset=len(cluster.log),
        want_fence=False,
        want_shut_down=False,
    )
    made: Any = result_of(
        cluster.controller.decide_in_steps(
            ApiKey.BROKER_HEARTBEAT, heartbeat, cluster.now, len(cluster.log), arrived_ms
        )
    )
    assert (made.records, made.response.is_fenced) == ([], True)
    later(cluster)
    refuse(cluster, 2)
    assert fenced(cluster) == {1}, "it is no proof of life; the majority stays"


def test_v2_a_new_controller_may_act_on_older_evidence() -> None:
    """The broker was the active controller: its successor never had a heartbeat from it."""
    cluster = Cluster(brokers=3)
    ended_ms = later(cluster)
    cluster.controller.resign()
    cluster.controller.activate(cluster.bootstrap, Now(later(cluster), 0))
    refuse(cluster, 1, ended_ms=ended_ms)
    assert fenced(cluster) == {1}

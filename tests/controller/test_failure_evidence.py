"""V2: a broker whose connection ended and that refuses a new one is fenced before its timeout."""

from __future__ import annotations

from typing import Any

from kraftlog.controller.failure_evidence import IGNORED_AFTER_MISTAKE_MS
from kraftlog.steps import result_of
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.controller.cluster import SESSION_MS, Cluster


def pass_ms(cluster: Cluster, ms: int = 100) -> int:
    cluster.now_ms += ms
    return cluster.now_ms


def report_refused_connection(
    cluster: Cluster, broker: int, *, ended_ms: int | None = None, epoch: int = -1
) -> None:
    """Report that the connection to a broker ended (by default now) and it refuses a new one."""
    reported_epoch = cluster.state.brokers[broker].epoch if epoch < 0 else epoch
    ended_ms = cluster.now_ms if ended_ms is None else ended_ms
    cluster.controller.note_connection_refused(broker, reported_epoch, ended_ms, cluster.now)
    cluster.pass_time(0)


def fenced_brokers(cluster: Cluster) -> set[int]:
    return {broker.id for broker in cluster.committed.brokers.values() if broker.fenced}


def test_v2_evidence_fences_the_broker_and_moves_its_partitions() -> None:
    cluster = Cluster(brokers=3)
    topic = cluster.create("t", (1, 2, 3))
    pass_ms(cluster)
    report_refused_connection(cluster, 1)
    assert fenced_brokers(cluster) == {1}
    assert cluster.committed.partitions[topic, 0].leader == 2
    assert cluster.committed.partitions[topic, 0].isr == (2, 3)
    assert cluster.controller.evidence.log_lines == [
        "broker 1 is fenced: its connection has ended, and it refuses another"
    ]


def test_v2_evidence_about_another_epoch_does_not_count() -> None:
    cluster = Cluster(brokers=3)
    epoch = cluster.state.brokers[1].epoch
    pass_ms(cluster)
    cluster.register(1, incarnation=1)
    report_refused_connection(cluster, 1, epoch=epoch - 1)
    assert fenced_brokers(cluster) == set()


def test_v2_a_broker_that_sent_a_heartbeat_since_is_not_fenced() -> None:
    cluster = Cluster(brokers=3)
    ended_ms = pass_ms(cluster)
    pass_ms(cluster)
    cluster.heartbeat(1)
    report_refused_connection(cluster, 1, ended_ms=ended_ms)
    assert fenced_brokers(cluster) == set()


def test_v3_a_broker_in_controlled_shutdown_is_not_fenced_early() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", (1, 2, 3))
    cluster.heartbeat(1, want_shut_down=True)
    pass_ms(cluster)
    report_refused_connection(cluster, 1)
    assert fenced_brokers(cluster) == set()


def test_v2_evidence_fences_no_majority_at_once() -> None:
    """A firewall that is reloaded refuses the connections to all brokers."""
    cluster = Cluster(brokers=5)
    pass_ms(cluster)
    for broker in (1, 2, 3, 4, 5):
        report_refused_connection(cluster, broker)
    assert fenced_brokers(cluster) == {1, 2}
    cluster.now_ms += SESSION_MS + 1
    for broker in (3, 4, 5):
        cluster.heartbeat(broker)
    pass_ms(cluster)
    report_refused_connection(cluster, 3)
    assert fenced_brokers(cluster) == {1, 2, 3}, (
        "brokers 1 and 2 no longer count, as their sessions would be over"
    )


def test_v2_evidence_of_one_turn_fences_no_majority() -> None:
    cluster = Cluster(brokers=3)
    pass_ms(cluster)
    for broker in (1, 2, 1, 3):
        epoch = cluster.state.brokers[broker].epoch
        cluster.controller.note_connection_refused(broker, epoch, cluster.now_ms, cluster.now)
    cluster.pass_time(0)
    assert fenced_brokers(cluster) == {1}
    assert len(cluster.controller.evidence.log_lines) == 1


def test_v2_one_of_two_brokers_may_be_fenced() -> None:
    cluster = Cluster(brokers=2)
    pass_ms(cluster)
    report_refused_connection(cluster, 1)
    report_refused_connection(cluster, 2)
    assert fenced_brokers(cluster) == {1}


def test_v2_evidence_is_ignored_for_minutes_after_it_was_wrong() -> None:
    cluster = Cluster(brokers=3)
    pass_ms(cluster)
    report_refused_connection(cluster, 1)
    pass_ms(cluster)
    assert not cluster.heartbeat(1).response.is_fenced
    assert fenced_brokers(cluster) == set()
    assert "is alive although it refused" in cluster.controller.evidence.log_lines[-1]
    pass_ms(cluster)
    report_refused_connection(cluster, 2)
    assert fenced_brokers(cluster) == set()
    cluster.now_ms += IGNORED_AFTER_MISTAKE_MS
    for broker in (1, 2, 3):
        cluster.heartbeat(broker)
    pass_ms(cluster)
    report_refused_connection(cluster, 2)
    assert fenced_brokers(cluster) == {2}


def test_v2_a_heartbeat_from_before_the_evidence_does_not_unfence() -> None:
    """It waited for another decision, and its sender was killed in the meantime."""
    cluster = Cluster(brokers=3)
    arrived_ms = pass_ms(cluster)
    report_refused_connection(cluster, 1, ended_ms=pass_ms(cluster))
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=cluster.state.brokers[1].epoch,
        current_metadata_offset=len(cluster.log),
        want_fence=False,
        want_shut_down=False,
    )
    decision: Any = result_of(
        cluster.controller.decide_in_steps(
            ApiKey.BROKER_HEARTBEAT, heartbeat, cluster.now, len(cluster.log), arrived_ms
        )
    )
    assert (decision.records, decision.response.is_fenced) == ([], True)
    pass_ms(cluster)
    report_refused_connection(cluster, 2)
    assert fenced_brokers(cluster) == {1}, (
        "the heartbeat is older than the evidence about broker 1, and two of three stay unfenced"
    )


def test_v2_a_new_controller_may_act_on_older_evidence() -> None:
    """The broker was the active controller, so its successor never got a heartbeat from it."""
    cluster = Cluster(brokers=3)
    ended_ms = pass_ms(cluster)
    cluster.controller.resign()
    cluster.controller.activate(cluster.bootstrap, Now(pass_ms(cluster), 0))
    report_refused_connection(cluster, 1, ended_ms=ended_ms)
    assert fenced_brokers(cluster) == {1}

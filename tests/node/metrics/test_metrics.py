"""Metrics of a node, and the reasons why it is not ready."""

from __future__ import annotations

import re
from pathlib import Path

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter
from kraftlog.node.metrics import broker_metrics, controller_metrics, quorum_metrics, registry
from kraftlog.node.metrics.health import readiness, why_not_ready
from kraftlog.raft.describe import describe
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord, RemoveTopicRecord
from kraftlog_simulator.files import Fault
from tests.node.frame_client import make_host
from tests.node.test_producers import Writer
from tests.node.test_requests import batch
from tests.raft.core_network import CoreNetwork
from tests.virtual_host import VirtualHost


def topic_metric(host: VirtualHost, name: str) -> dict[str, float]:
    """The value of a broker's metric by topic; "" is the sum of all topics."""
    [family] = [it for it in broker_metrics.FAMILIES if it.name == name]
    return {
        dict(labels).get("topic", ""): value
        for labels, value in family.measure(host.node, host.now)
    }


def test_q35_counts_over_all_topics_outlive_a_topic() -> None:
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    host = make_host(demo=1, other=1)
    assert Writer(host).write(batch(b"a", b"b"))[0] == ErrorCode.NONE
    assert topic_metric(host, name) == {"": 2, "demo": 2, "other": 0}
    topic_id = host.node.image.topic_ids["demo"]
    host.node.replay([RemoveTopicRecord(topic_id=topic_id)], 100)
    assert topic_metric(host, name) == {"": 2, "other": 0}


def test_a_refused_batch_counts_as_failed() -> None:
    host = make_host()
    corrupt = bytearray(batch(b"a"))
    corrupt[-1] ^= 1
    assert Writer(host).write(bytes(corrupt))[0] == ErrorCode.CORRUPT_MESSAGE
    assert topic_metric(host, "kafka_server_brokertopicmetrics_failedproducerequests_total") == {
        "": 1,
        "demo": 1,
    }
    assert topic_metric(host, "kafka_server_brokertopicmetrics_messagesin_total")[""] == 0


def test_the_active_controller_counts_unclean_elections() -> None:
    host = make_host()
    [family] = [it for it in controller_metrics.FAMILIES if "unclean" in it.name]
    topic_id = host.node.image.topic_ids["demo"]
    for leader, isr, count in ((-1, [1], 0), (1, None, 0), (2, [2], 1)):
        change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr)
        host.node.replay([change], 100)
        assert list(family.measure(host.node, host.now)) == [((), count)]


def test_a_stalled_quorum_and_a_broker_not_running_are_not_ready() -> None:
    host = make_host()
    node = host.node
    assert why_not_ready(node, host.now) == []
    core, latency = node.quorum.core, node.quorum.latency
    latency.append(1, core.log.end, host.now.monotonic_ms - 10_000, leads=True)
    high_watermark, end = core.log.high_watermark, core.log.end
    assert why_not_ready(node, host.now) == [
        (
            f"the high watermark has been {high_watermark} for 10000 ms, "
            f"while the log end offset is {end}"
        )
    ]
    assert readiness(node, host.now)["quorum"]["uncommitted_for_ms"] == 10_000
    latency.leader_known(host.now.monotonic_ms, leads=False)
    assert node.broker_lifecycle is not None
    for epoch, is_fenced, wants_to_leave, state in (
        (-1, True, False, "starting"),
        (5, True, False, "fenced"),
        (5, False, True, "leaving"),
    ):
        lifecycle = node.broker_lifecycle
        lifecycle.epoch, lifecycle.is_fenced = epoch, is_fenced
        lifecycle.wants_to_leave = wants_to_leave
        assert why_not_ready(node, host.now) == [f"the broker is {state}"]


def test_a_failed_directory_is_a_reason_for_not_ready() -> None:
    host = make_host()
    host.files.faults.append(Fault("pwritev"))
    Writer(host).write(batch(b"lost"))
    assert why_not_ready(host.node, host.now) == ["no log directory works: the disk has failed"]


def quorum_metric(host: VirtualHost, name: str, later_ms: int = 0) -> dict[str, float]:
    """The value of a metric of the quorum by label value; "" without labels."""
    [family] = [it for it in quorum_metrics.FAMILIES if it.name == name]
    now = host.now.replace(
        monotonic_ms=host.now.monotonic_ms + later_ms, wall_ms=host.now.wall_ms + later_ms
    )
    return {"".join(dict(labels).values()): it for labels, it in family.measure(host.node, now)}


def test_q35_timeouts_of_fetches_and_elections_are_counted() -> None:
    """The metrics of KIP-1322."""
    network = CoreNetwork(1, 2, 3, voters=(1, 2, 3))
    network.pass_time(5000)
    leader = network.leader().me.id
    follower = network.core(next(i for i in (1, 2, 3) if i != leader))
    assert follower.fetch_timeouts == 0
    before = follower.election_timeouts
    network.isolate(follower.me.id)
    network.pass_time(follower.config.fetch_timeout_ms + 3 * follower.config.election_timeout_ms)
    assert follower.fetch_timeouts == 1
    assert follower.election_timeouts > before
    host = make_host()
    host.node.quorum.core.fetch_timeouts, host.node.quorum.core.election_timeouts = 2, 3
    assert quorum_metric(host, "kraftlog_quorum_fetch_timeouts_total") == {"": 2}
    assert quorum_metric(host, "kraftlog_quorum_election_timeouts_total") == {"": 3}


def test_q35_lag_and_last_contact_are_reported_by_voter() -> None:
    host = make_host()
    core = host.node.quorum.core
    [me] = core.log.voter_set.voters
    lagging = Voter(ReplicaKey(9, bytes([9]) * 16))
    assert quorum_metric(host, "kraftlog_quorum_voter_lag") == {str(me.key.id): 0}
    core.log.voters.base = core.log.voter_set.with_voter(lagging)
    core.log.voters.entries = ()
    offset = core.log.end - 1
    core.role.progress.note_fetch(lagging.key, offset, core.log.end, host.now, 1000)  # type: ignore[attr-defined]  # its role is Leader
    assert quorum_metric(host, "kraftlog_quorum_voter_lag") == {str(me.key.id): 0, "9": 1}
    contacts = quorum_metric(host, "kraftlog_quorum_voter_last_contact_ms", later_ms=700)
    assert contacts == {str(me.key.id): 0, "9": 700}


def test_q35_contact_of_a_voter_that_never_fetched_counts_from_the_epoch() -> None:
    """An alert needs a growing number; DescribeQuorum shows -1, as Kafka does (D3)."""
    host = make_host()
    core = host.node.quorum.core
    never_fetched = Voter(ReplicaKey(9, bytes([9]) * 16))
    core.log.voters.base = core.log.voter_set.with_voter(never_fetched)
    core.log.voters.entries = ()
    leading_ms = host.now.monotonic_ms - core.role.elected_at  # type: ignore[attr-defined]  # its role is Leader
    contacts = quorum_metric(host, "kraftlog_quorum_voter_last_contact_ms", later_ms=12_000)
    assert contacts["9"] == leading_ms + 12_000
    shown = describe(core, host.now)
    assert shown is not None
    assert [it.fetched_ms for it in shown.voters if it.key.id == 9] == [-1]


def test_q35_metrics_of_the_quorum_have_both_names_of_strimzi() -> None:
    host = make_host()
    for name in ("current_leader", "high_watermark", "commit_latency_max", "append_records_rate"):
        names = [f"kafka_server_{it}_{name}" for it in ("raftmetrics", "raft_metrics")]
        assert repr(quorum_metric(host, names[0])) == repr(quorum_metric(host, names[1]))
    assert quorum_metric(host, "kafka_server_raft_metrics_current_state_info") == {"leader": 1}


def test_alerts_of_the_documentation_name_metrics_that_exist() -> None:
    text = (Path(__file__).parents[3] / "docs" / "operate" / "metrics.md").read_text()
    table = text.partition("## Alerts")[2].partition("## Cost")[0]
    used = set(re.findall(r"\b(?:kafka|kraftlog)_\w+", table))
    families = (*registry.OF_EVERY_NODE, *controller_metrics.FAMILIES, *broker_metrics.FAMILIES)
    assert len(used) > 10
    assert used <= {family.name for family in families}

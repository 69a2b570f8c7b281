"""Metrics of a node: counts that outlive topics, reasons why it is not ready."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.metrics import broker_metrics, controller_metrics
from kraftlog.node.metrics.health import readiness, why_not_ready
from kraftlog.simulator.files import Fault
from kraftlog.simulator.host import VirtualHost
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord, RemoveTopicRecord
from tests.node.frame_client import make_host
from tests.node.test_producers import Writer
from tests.node.test_requests import batch


def told_by(host: VirtualHost, name: str) -> dict[str, float]:
    """Topic ("" for all) -> value of one of the families of a broker."""
    [family] = [it for it in broker_metrics.FAMILIES if it.name == name]
    return {
        dict(labels).get("topic", ""): value
        for labels, value in family.measure(host.node, host.now)
    }


def test_q35_counts_over_all_topics_outlive_a_topic() -> None:
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    host = make_host(demo=1, other=1)
    assert Writer(host).write(batch(b"a", b"b"))[0] == ErrorCode.NONE
    assert told_by(host, name) == {"": 2, "demo": 2, "other": 0}
    topic_id = host.node.image.topic_ids["demo"]
    host.node.replay([RemoveTopicRecord(topic_id=topic_id)], 100)
    assert told_by(host, name) == {"": 2, "other": 0}


def test_a_refused_batch_counts_as_failed() -> None:
    host = make_host()
    spoilt = bytearray(batch(b"a"))
    spoilt[-1] ^= 1
    assert Writer(host).write(bytes(spoilt))[0] == ErrorCode.CORRUPT_MESSAGE
    assert told_by(host, "kafka_server_brokertopicmetrics_failedproducerequests_total") == {
        "": 1,
        "demo": 1,
    }
    assert told_by(host, "kafka_server_brokertopicmetrics_messagesin_total")[""] == 0


def test_the_active_controller_counts_unclean_elections() -> None:
    host = make_host()
    [family] = [it for it in controller_metrics.FAMILIES if "unclean" in it.name]
    topic_id = host.node.image.topic_ids["demo"]
    for leader, isr, count in ((-1, [1], 0), (1, None, 0), (2, [2], 1)):
        change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr)
        host.node.replay([change], 100)
        assert list(family.measure(host.node, host.now)) == [((), count)]


def test_every_reason_for_not_ready_is_reported() -> None:
    host = make_host()
    node = host.node
    assert why_not_ready(node, host.now) == []
    core, times = node.quorum.core, node.quorum.times
    times.append(1, core.log.end, host.now.monotonic_ms - 10_000, leads=True)
    mark, end = core.log.high_watermark, core.log.end
    assert why_not_ready(node, host.now) == [
        f"the high watermark has been {mark} for 10000 ms, while the log end offset is {end}"
    ]
    assert readiness(node, host.now)["quorum"]["uncommitted_for_ms"] == 10_000
    times.know_leader(host.now.monotonic_ms, leads=False)
    assert node.broker_lifecycle is not None
    for epoch, is_fenced, leaves, state in (
        (-1, True, False, "starting"),
        (5, True, False, "fenced"),
        (5, False, True, "leaving"),
    ):
        lifecycle = node.broker_lifecycle
        lifecycle.epoch, lifecycle.is_fenced = epoch, is_fenced
        lifecycle.wants_to_leave = leaves
        assert why_not_ready(node, host.now) == [f"the broker is {state}"]


def test_a_failed_directory_is_a_reason_for_not_ready() -> None:
    host = make_host()
    host.files.faults.append(Fault("pwritev"))
    Writer(host).write(batch(b"lost"))
    assert why_not_ready(host.node, host.now) == ["no log directory works: the disk has failed"]

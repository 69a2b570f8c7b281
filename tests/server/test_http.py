"""Metrics and health of real nodes, over HTTP."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.node.metrics import broker_metrics, controller_metrics, quota_metrics, registry
from kraftlog.server.pages import HOST_FAMILIES
from kraftlog.wire.apis import ApiKey
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.raw import RawClient, fetch, produce
from tests.server.web import Metrics, ask, web_port
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAMILIES = (
    *registry.OF_EVERY_NODE,
    *controller_metrics.FAMILIES,
    *broker_metrics.FAMILIES,
    *HOST_FAMILIES,
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    started = NodeProcess(
        str(tmp_path / "data"), "--http-port", "0", errors=str(tmp_path / "errors.txt")
    )
    try:
        yield started
    finally:
        started.kill_if_running()


def test_q35_every_documented_metric_is_exposed_as_described(node: NodeProcess) -> None:
    """Prometheus' parser reads the type, help and samples of each."""
    with RawClient(node.port) as client:
        client.round_trip()
        page = Metrics(web_port(node))
    kinds = {"untyped": "unknown"}
    for family in FAMILIES:
        # The parser strips `_total` from the names of counters.
        name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
        exposed = page.families.pop(name)
        assert exposed.type == kinds.get(family.kind, family.kind)
        assert exposed.documentation == family.help
        # Quotas have samples once one limits a client (tests/node/metrics/test_quota_metrics.py).
        assert exposed.samples or family in quota_metrics.FAMILIES, family.name
    assert page.families == {}


def test_q35_metrics_count_what_clients_do(node: NodeProcess) -> None:
    port = web_port(node)
    with RawClient(node.port) as client:
        client.send(produce(1, b"a", b"bc"))
        assert client.next_produce_response() == (1, 0, 0)
        client.send(fetch(2))
        assert client.message(ApiKey.FETCH).responses
        page = Metrics(port)
        connections = page.value(
            "kafka_server_socket_server_metrics_connection_count",
            listener="PLAINTEXT",
            networkProcessor="0",
        )
    assert connections == 1
    size = page.value("kafka_log_log_size", topic="demo", partition="0")
    assert size > 0
    prefix = "kafka_server_brokertopicmetrics_"
    for labels in ({}, {"topic": "demo"}):
        values = {
            name: page.value(f"{prefix}{name}_total", **labels)
            for name in ("messagesin", "bytesin", "bytesout", "totalproducerequests")
        }
        assert values == {
            "messagesin": 2,
            "bytesin": size,
            "bytesout": size,
            "totalproducerequests": 1,
        }
        assert page.value(f"{prefix}failedproducerequests_total", **labels) == 0
    assert page.value("kafka_log_log_logendoffset", topic="demo", partition="0") == 2
    assert page.value("kafka_server_replicamanager_leadercount") == 1
    assert page.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert page.value("kafka_controller_kafkacontroller_globaltopiccount") == 1
    assert page.value("kafka_server_raftmetrics_current_state", current_state="leader") == 1
    assert page.value("kafka_server_raftmetrics_high_watermark") == page.value(
        "kafka_server_raftmetrics_log_end_offset"
    )
    produced = [
        sample
        for sample in page.families["kafka_network_requestmetrics_requests"].samples
        if sample.labels["request"] == "Produce"
    ]
    assert [sample.value for sample in produced] == [1]


def test_a_healthy_node_is_ready(node: NodeProcess) -> None:
    port = web_port(node)
    response, text = ask(port, "/health/ready")
    health = json.loads(text)
    assert (response.status, health["ready"], health["reasons"]) == (200, True, [])
    assert health["quorum"]["state"] == "leader"
    assert health["quorum"]["high_watermark"] == health["quorum"]["log_end_offset"] > 0
    assert health["broker"]["state"] == "running"
    response, text = ask(port, "/health/live?verbose=1")
    assert (response.status, json.loads(text)) == (200, {"live": True})


def test_invalid_http_requests_are_refused(node: NodeProcess) -> None:
    port = web_port(node)
    assert ask(port, "/nothing")[0].status == 404
    assert ask(port, "/metrics", "POST")[0].headers["Allow"] == "GET, HEAD"
    response, text = ask(port, "/metrics", "HEAD")
    assert (response.status, text) == (200, "")
    assert int(response.headers["Content-Length"]) > 1000
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        client.sendall(b"\x00\x00\x00\x10 this is no HTTP\r\n\r\n")
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert ask(port, "/health/live")[0].status == 200


def test_http_is_off_unless_configured(tmp_path: Path) -> None:
    started = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={})
    try:
        assert "http" not in started.output()
    finally:
        started.kill_if_running()


def start_with_http(quorum: Quorum, node_id: int) -> int:
    """Start a node of the quorum; return the port of its HTTP pages."""
    errors = str(quorum.folder / f"errors-{node_id}.txt")
    quorum.nodes[node_id] = started = NodeProcess(
        None, quorum.file(node_id), "--http-port", "0", errors=errors, topics={}
    )
    return web_port(started)


def test_q11_a_controller_without_a_majority_is_not_ready(tmp_path: Path) -> None:
    """It is live, but ready only while a second controller of three runs.

    A broker stays ready without a leader, as it serves clients.
    """
    quorum = Quorum(tmp_path)
    first, second, _ = CONTROLLERS
    try:
        port = start_with_http(quorum, first)
        assert ask(port, "/health/live")[0].status == 200
        response, text = ask(port, "/health/ready")
        health = json.loads(text)
        assert (response.status, health["ready"]) == (503, False)
        assert health["reasons"] == ["this node knows no leader of the quorum"]
        assert (health["quorum"]["leader_id"], health["quorum"]["high_watermark"]) == (-1, -1)
        quorum.start(second)
        wait_for_status(port, 200)
        broker_port = start_with_http(quorum, BROKER)
        quorum.kill(second)
        wait_for_status(port, 503)
        assert Metrics(port).value("kafka_controller_kafkacontroller_activecontrollercount") == 0
        response, text = ask(broker_port, "/health/ready")
        health = json.loads(text)
        assert (response.status, health["broker"]["state"]) == (200, "running")
        assert "kafka_server_brokermetadatametrics" in Metrics(broker_port).text
    finally:
        quorum.end()


def wait_for_status(port: int, status: int) -> None:
    """Wait until the page for readiness has this status."""
    deadline = Deadline(LIMIT_S)
    while (found := ask(port, "/health/ready")[0].status) != status:
        assert not deadline.is_over, f"the status is still {found}"


def test_request_times_have_kafkas_metric_names(node: NodeProcess) -> None:
    """A fetch without data takes its maximum wait; quick requests take less than a test."""
    port = web_port(node)
    name = "kafka_network_requestmetrics_totaltimems"
    wait_ms = 200
    with RawClient(node.port) as client:
        client.send(fetch(1, max_wait_ms=wait_ms))
        assert client.message(ApiKey.FETCH).responses
        client.round_trip()
        page = Metrics(port)
    for request in ("Fetch", "FetchConsumer"):
        for quantile in broker_metrics.QUANTILES:
            assert page.value(name, request=request, quantile=quantile) >= wait_ms
        assert page.value(f"{name}_count", request=request) == 1
    quick = page.value(name, request="CreateTopics", quantile="0.50")
    assert 0 <= quick < LIMIT_S * 1000


#: The metrics, except the JVM's, that Strimzi's dashboards strimzi-kraft and strimzi-kafka and its
#: alerts for Kafka query.
ON_DASHBOARDS = """
kafka_cluster_partition_atminisr kafka_cluster_partition_replicascount
kafka_cluster_partition_underminisr kafka_controller_controllerstats_uncleanleaderelections_total
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount kafka_log_log_size
kafka_log_logmanager_offlinelogdirectorycount
kafka_network_socketserver_networkprocessoravgidle_percent
kafka_server_brokertopicmetrics_bytesin_total kafka_server_brokertopicmetrics_bytesout_total
kafka_server_brokertopicmetrics_failedfetchrequests_total
kafka_server_brokertopicmetrics_failedproducerequests_total
kafka_server_brokertopicmetrics_messagesin_total
kafka_server_brokertopicmetrics_totalfetchrequests_total
kafka_server_brokertopicmetrics_totalproducerequests_total
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
kafka_server_kafkaserver_linux_disk_read_bytes kafka_server_kafkaserver_linux_disk_write_bytes
kafka_server_raftchannelmetrics_incoming_byte_total
kafka_server_raftchannelmetrics_outgoing_byte_total kafka_server_raftchannelmetrics_request_total
kafka_server_raftchannelmetrics_response_total kafka_server_raftmetrics_append_records_rate
kafka_server_raftmetrics_commit_latency_avg kafka_server_raftmetrics_current_epoch
kafka_server_raftmetrics_current_leader kafka_server_raftmetrics_current_state
kafka_server_raftmetrics_current_vote kafka_server_raftmetrics_fetch_records_rate
kafka_server_raftmetrics_high_watermark kafka_server_raftmetrics_log_end_offset
kafka_server_replicamanager_leadercount kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underminisrpartitioncount
kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socket_server_metrics_connection_count process_open_fds
"""


def test_public_dashboards_find_their_metrics() -> None:
    assert set(ON_DASHBOARDS.split()) - {family.name for family in FAMILIES} == set()

"""The quorum of a single-node cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import describe_quorum as quorum
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from tests.server import raw
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import CLUSTER_ID, format_node

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kraftlog.wire.schema import Message

#: The endpoint type of DescribeCluster that asks for controllers.
CONTROLLER_ENDPOINTS = 2


def ask(port: int, api_key: int, request: Message) -> Any:
    with raw.RawClient(port) as client:
        client.send(raw.frame(1, api_key, request))
        return client.message(api_key)


def controller_of(node: NodeProcess) -> Any:
    """The only controller that DescribeQuorum returns."""
    topic = quorum.TopicData(
        topic_name="__cluster_metadata", partitions=[quorum.PartitionData(partition_index=0)]
    )
    request = quorum.DescribeQuorumRequest(topics=[topic])
    (controller,) = ask(node.port, ApiKey.DESCRIBE_QUORUM, request).nodes
    return controller


BROKER_FILE = """\
process.roles=broker
node.id=9
listeners=PLAINTEXT://127.0.0.1:0
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{port}
log.dirs={data}
"""


def test_d6_describe_quorum_has_the_controllers_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is assigned at the start, so the voter record in the log does not have it."""
    monkeypatch.setitem(raw.VERSIONS, ApiKey.DESCRIBE_QUORUM, 2)
    monkeypatch.setitem(raw.VERSIONS, ApiKey.DESCRIBE_CLUSTER, 1)
    node = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={})
    try:
        controller = controller_of(node)
        (listener,) = controller.listeners
        assert listener.port not in {0, node.port}
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLER_ENDPOINTS
        )
        cluster = ask(listener.port, ApiKey.DESCRIBE_CLUSTER, request)
        assert [(it.broker_id, it.port) for it in cluster.brokers] == [
            (controller.node_id, listener.port)
        ]
    finally:
        node.kill_if_running()


def test_q31_a_broker_of_another_cluster_logs_the_reason_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker's only controller belongs to a cluster with another id."""
    monkeypatch.setitem(raw.VERSIONS, ApiKey.DESCRIBE_QUORUM, 2)
    node = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={})
    try:
        [listener] = controller_of(node).listeners
        file = tmp_path / "broker.properties"
        file.write_text(BROKER_FILE.format(port=listener.port, data=tmp_path / "broker"))
        format_node(str(file))
        command = [sys.executable, "-m", "kraftlog", "start", str(file)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode != 0
        assert f"another cluster than its own, {CLUSTER_ID}" in done.stderr
    finally:
        node.kill_if_running()

"""A node that accepts clients is ready: at its first start and after `kill -9`."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.ports import free_ports
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.raw import RawClient, frame
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path


def first_connection(port: int) -> RawClient:
    """Connect to a starting node as soon as it accepts connections."""
    deadline = time.monotonic() + LIMIT_S  # noqa: TID251 - a generous limit, not a measure
    while True:
        try:
            return RawClient(port)
        except ConnectionRefusedError:
            time.sleep(0.001)
            assert time.monotonic() < deadline, "no connection is accepted"  # noqa: TID251 - as above


def expect_service(port: int, topic: str, broker: int) -> None:
    """V5: the first client finds the broker in Metadata, and can create a topic."""
    with first_connection(port) as client:
        client.send(frame(1, ApiKey.METADATA, MetadataRequest(topics=[])))
        assert [it.node_id for it in client.message(ApiKey.METADATA).brokers] == [broker]
        new_topic = CreatableTopic(
            name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        request = CreateTopicsRequest(topics=[new_topic], timeout_ms=1000 * LIMIT_S)
        client.send(frame(2, ApiKey.CREATE_TOPICS, request))
        [created] = client.message(ApiKey.CREATE_TOPICS).topics
        assert created.error_code == ErrorCode.NONE, created


class StartingNode:
    """Starts a node without waiting until it is ready, and kills it at the end."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "kraftlog", "start", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def test_v5_the_first_client_is_served_also_after_a_kill(tmp_path: Path) -> None:
    """Metadata has the broker: clients can connect only once its new registration is unfenced."""
    [port] = free_ports(1)
    for number in range(3):
        with StartingNode("--data", str(tmp_path / "data"), "--port", str(port)):
            expect_service(port, f"start-{number}", broker=1)


def test_v5_the_first_client_of_a_broker_only_node_is_served(
    tmp_path: Path,
) -> None:
    """Also after all nodes were killed, whether the controllers or the broker start first."""
    # A killed broker keeps its session for 4 s, so its next start finds that session still active.
    quorum = Quorum(tmp_path, "broker.session.timeout.ms=4000\nbroker.heartbeat.interval.ms=500\n")
    try:
        quorum.start(*CONTROLLERS)
        with StartingNode(quorum.file(BROKER)):
            expect_service(quorum.ports[BROKER], "first", BROKER)
            for node_id in CONTROLLERS:
                quorum.kill(node_id)
        quorum.start(*CONTROLLERS)
        with StartingNode(quorum.file(BROKER)):
            expect_service(quorum.ports[BROKER], "second", BROKER)
            for node_id in CONTROLLERS:
                quorum.kill(node_id)
        with StartingNode(quorum.file(BROKER)):
            quorum.start(*CONTROLLERS)
            expect_service(quorum.ports[BROKER], "third", BROKER)
    finally:
        quorum.end()

"""Acknowledged records survive, and keep their offsets, however a node ends."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.storage.manifest import CLEAN_MARKER
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from kraftlog.wire.messages.list_config_resources import ListConfigResourcesRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.server.clients import consume, produce_all
from tests.server.node_process import NodeProcess
from tests.server.raw import RawClient, frame, produce

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class NodeRestarts:
    """One directory, and the nodes started on it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.data = str(folder / "data")
        self.errors = str(folder / "errors.txt")
        self.nodes: list[NodeProcess] = []

    def start(self, module: str = "kraftlog") -> NodeProcess:
        self.nodes.append(NodeProcess(self.data, errors=self.errors, module=module))
        return self.nodes[-1]


@pytest.fixture
def restarts(tmp_path: Path) -> Iterator[NodeRestarts]:
    restarts = NodeRestarts(tmp_path)
    yield restarts
    for node in restarts.nodes:
        node.kill_if_running()


def produce_until_it_ends(
    node: NodeProcess, values: Sequence[bytes], end_after: int, end: str
) -> dict[int, bytes]:
    """Send all values; after `end_after` acknowledgements call the method `end` of the process.

    Return the acknowledged values by offset.
    """
    with RawClient(node.port) as client:
        frames = b"".join([produce(number, value) for number, value in enumerate(values)])

        def send() -> None:
            try:
                client.send(frames)
            except OSError:
                return  # the node has ended, as intended

        sender = threading.Thread(target=send)
        sender.start()
        acknowledged: dict[int, bytes] = {}
        while response := client.next_produce_response():
            number, code, offset = response
            assert code == ErrorCode.NONE
            assert number == len(acknowledged)
            acknowledged[offset] = values[number]
            if len(acknowledged) == end_after:
                getattr(node.process, end)()
        sender.join()
    return acknowledged


@pytest.mark.parametrize(("end", "code"), [("terminate", 0), ("kill", -9)])
def test_records_acknowledged_under_load_survive_every_ending(
    restarts: NodeRestarts, end: str, code: int
) -> None:
    acknowledged: dict[int, bytes] = {}
    for restart in range(4):
        node = restarts.start()
        if acknowledged:
            consumed = consume(node.address, max(acknowledged) + 1)
            assert {offset: consumed[offset] for offset in acknowledged} == acknowledged
        values = [b"restart %d, value %d" % (restart, n) for n in range(20_000)]
        newly_acknowledged = produce_until_it_ends(node, values, 200 * (restart + 1), end)
        assert 200 * (restart + 1) <= len(newly_acknowledged)
        assert not acknowledged.keys() & newly_acknowledged.keys()
        acknowledged |= newly_acknowledged
        assert node.wait() == code


def test_an_internal_error_stops_the_node_without_the_clean_marker(restarts: NodeRestarts) -> None:
    """The error is in a step of the quorum, whose state may be partly changed."""
    node = restarts.start()
    produce_all(node.address, [b"before"])
    assert node.stop() == 0
    assert CLEAN_MARKER in os.listdir(restarts.data)
    broken = restarts.start("tests.server.with_a_broken_handler")
    with RawClient(broken.port) as client:
        client.send(produce(1, b"and after"))
        assert client.next_response() is not None
        client.send(frame(2, ApiKey.METADATA, MetadataRequest(topics=None)))
        assert client.next_response() is None
    assert broken.wait() == 1
    assert "a deliberate mistake" in broken.output()
    assert CLEAN_MARKER not in os.listdir(restarts.data)
    assert consume(restarts.start().address, 2) == [b"before", b"and after"]


def test_an_error_without_changes_costs_only_its_request(restarts: NodeRestarts) -> None:
    """An error in a read, or in encoding a response, closes the connection.

    After an error in its decision the controller proposes nothing, and responds with an error code.
    """
    node = restarts.start("tests.server.with_a_broken_handler")
    with RawClient(node.port) as other:
        other.round_trip()
        for key, version, request in (
            (
                ApiKey.DESCRIBE_CLUSTER,
                1,
                DescribeClusterRequest(include_cluster_authorized_operations=False),
            ),
            (ApiKey.LIST_CONFIG_RESOURCES, 0, ListConfigResourcesRequest()),
        ):
            with RawClient(node.port) as client:
                client.send(b"".join(request_frame(APIS[key], version, 1, "raw", request)))
                assert client.next_response() is None
        topic = CreatePartitionsTopic(name="demo", count=2, assignments=None)
        two_partitions = CreatePartitionsRequest(
            topics=[topic], timeout_ms=1000, validate_only=False
        )
        api = APIS[ApiKey.CREATE_PARTITIONS]
        other.send(b"".join(request_frame(api, 3, 1, "raw", two_partitions)))
        response = other.next_response()
        assert response is not None
        [result] = decode(CreatePartitionsResponse, 3, response[1][1:]).results
        assert (result.name, result.error_code) == ("demo", ErrorCode.UNKNOWN_SERVER_ERROR)
        other.round_trip()
    output = node.output()
    for doing in (
        "serving DescribeCluster version 1",
        "responding to ListConfigResources version 0",
        "deciding on CreatePartitions",
    ):
        assert f"internal error, {doing}:\nTraceback" in output
    assert output.count("KeyError: 'a deliberate mistake'") == 2
    assert node.stop() == 0


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AssertionError, match="Not a directory"):
        NodeProcess(str(tmp_path / "file" / "data"), errors=str(tmp_path / "errors.txt"))

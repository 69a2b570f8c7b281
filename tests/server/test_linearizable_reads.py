"""P6-P8 on real processes: reads at every node, while leaders and followers are paused and killed.

The checker judges the clients' history. A write whose outcome is unknown may still be executed
later, even twice; so the writer never writes that config again, and switches to another one.
"""

from __future__ import annotations

import time
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.connection import Connection
from kraftlog.client.deadline import Deadline
from kraftlog.config.keys import CLIENT_METRICS
from kraftlog.config.layers import DYNAMIC_CLIENT_METRICS_CONFIG
from kraftlog.errors import ClientError
from kraftlog.wire.messages import incremental_alter_configs as alters
from kraftlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kraftlog_simulator.checkers.linearizability import (
    LINEARIZABLE,
    NOT_LINEARIZABLE,
    Operation,
    check,
)
from kraftlog_simulator.checkers.models import KeyValue
from tests.server.local_cluster import LocalCluster
from tests.server.replication_load import NODES, until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kraftlog.wire.schema import Message

#: The config of a client metrics resource that is written and read, and its smallest valid value.
KEY, SMALLEST = "interval.ms", 100
#: After this time a client gives up an operation; the writer then uses another node.
TIMEOUT_S = 3.0
#: How many reads at each node, and how many writes, must complete during each fault.
READS, WRITES = 20, 10


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    started = LocalCluster(tmp_path)
    try:
        yield started
    finally:
        started.end()


class History:
    """Runs a writer and readers at every node, and records their operations."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.addresses = {node: cluster.address(node) for node in NODES}
        #: The writes and the linearizable reads.
        self.operations: list[Operation] = []
        #: The keys and values of reads that are not linearizable, so they may be stale.
        self.stale: list[tuple[str, str]] = []
        #: The keys and values that the writer has sent, and the keys of acknowledged writes.
        self.written: set[tuple[str, str]] = set()
        self.acknowledged: list[str] = []
        self.writes = 0
        self.reads = dict.fromkeys(NODES, 0)
        #: The names of the resources written so far; the writer changes the last one.
        self.keys = ["c0"]
        self._lock = Lock()
        self._stopped = Event()
        jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(self._write_until_stopped, ())]
        jobs += [
            (self._read_until_stopped, (node, linearizable))
            for linearizable in (True, False)
            for node in NODES
        ]
        self._threads = [Thread(target=job, args=arguments) for job, arguments in jobs]

    def __enter__(self) -> History:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def record(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)

    def _write_until_stopped(self) -> None:
        nodes, number = list(NODES), 0
        with Connections() as connections:
            while not self._stopped.is_set():
                number += 1
                key, value = self.keys[-1], str(SMALLEST + number)
                call, invoked = ("put", key, value), time.monotonic_ns()
                self.written.add((key, value))
                try:
                    connections.call(self.addresses[nodes[0]], alter_request(key, value))
                except ClientError:
                    self.record(Operation("writer", call, invoked))
                    nodes.append(nodes.pop(0))
                    self.keys.append(f"c{number}")
                else:
                    self.record(Operation("writer", call, invoked, time.monotonic_ns()))
                    self.acknowledged.append(key)
                    self.writes += 1

    def _read_until_stopped(self, node: int, linearizable: bool) -> None:
        with Connections() as connections:
            while not self._stopped.is_set():
                key, invoked = self.keys[-1], time.monotonic_ns()
                try:
                    request = describe_request(key, linearizable=linearizable)
                    value = value_in(connections.call(self.addresses[node], request))
                except ClientError:
                    self._stopped.wait(0.02)
                    continue
                if not linearizable:
                    self.stale.append((key, value))
                    self._stopped.wait(0.02)
                    continue
                returned = time.monotonic_ns()
                self.record(Operation(f"reader {node}", ("get", key), invoked, returned, value))
                self.reads[node] += 1

    def await_progress(self, *nodes: int) -> None:
        """Wait until there are more writes, and more linearizable reads at these nodes."""
        writes, reads = self.writes + WRITES, {node: self.reads[node] + READS for node in nodes}
        until(lambda: self.writes >= writes, "writes go on")
        until(
            lambda: all(self.reads[node] >= count for node, count in reads.items()),
            f"nodes {nodes} are read",
        )


class Connections:
    """Connections of one thread, by address; a request is never repeated."""

    def __init__(self) -> None:
        self._open: dict[str, Connection] = {}

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open.values():
            connection.close()

    def call(self, address: str, request: Message) -> Any:
        deadline = Deadline(TIMEOUT_S)
        connection = self._open.pop(address, None)
        if connection is None:
            host, _, port = address.rpartition(":")
            connection = Connection(host, int(port), "test", deadline)
        try:
            response: Any = connection.call(request, deadline)
        except ClientError:
            connection.close()
            raise
        self._open[address] = connection
        results = getattr(response, "results", None) or response.responses
        if any(result.error_code for result in results):
            raise ClientError(f"error {results[0].error_code}")
        return response


def alter_request(key: str, value: str) -> Message:
    change = alters.AlterableConfig(name=KEY, config_operation=0, value=value)
    resource = alters.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=key, configs=[change]
    )
    return alters.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def describe_request(key: str, *, linearizable: bool) -> Message:
    resource = DescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=key, configuration_keys=[KEY]
    )
    return DescribeConfigsRequest(resources=[resource], linearizable=linearizable)


def value_in(response: Any) -> str:
    for config in response.results[0].configs:
        if config.config_source == DYNAMIC_CLIENT_METRICS_CONFIG:
            return str(config.value)
    return ""


def leader_of(cluster: LocalCluster, *nodes: int) -> int:
    """The quorum's leader, as one of these nodes reports it."""
    servers = ",".join([cluster.address(node) for node in nodes])
    with Client(servers, timeout_s=LIMIT_S) as client:
        return client.describe_quorum().leader_id


def test_p8_reads_are_linearizable_while_nodes_are_paused_and_killed(
    cluster: LocalCluster,
) -> None:
    with History(cluster) as history:
        history.await_progress(*NODES)
        leader = leader_of(cluster, *NODES)
        others = [node for node in NODES if node != leader]
        cluster.pause(leader)
        history.await_progress(*others)
        cluster.resume(leader)
        history.await_progress(*NODES)
        leader = leader_of(cluster, *NODES)
        first, second = [node for node in NODES if node != leader]
        cluster.pause(first)
        history.await_progress(leader, second)
        cluster.resume(first)
        cluster.kill(leader)
        history.await_progress(first, second)
        cluster.restart(leader)
        history.await_progress(*NODES)
    verdict = check(history.operations, KeyValue())
    assert verdict.outcome == LINEARIZABLE, verdict.stuck
    assert {pair for pair in history.stale if pair[1]} <= history.written
    assert stale_read_is_noticed(history)


def stale_read_is_noticed(history: History) -> bool:
    """Whether the same history would fail with one more read that misses an acknowledged write."""
    late = time.monotonic_ns()
    missed = Operation("stale reader", ("get", history.acknowledged[0]), late, late + 1, "")
    return check([*history.operations, missed], KeyValue()).outcome == NOT_LINEARIZABLE


def test_p7_commands_read_linearizably_at_a_follower(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = leader_of(cluster, *NODES)
    follower = cluster.address(min(node for node in NODES if node != leader))
    with Client(cluster.address(leader), timeout_s=LIMIT_S) as client:
        for number in range(5):
            client.create_topic(f"t{number}", configs={"retention.ms": 1000 + number})
            words = ["--consistency", "linearizable", "--bootstrap-server", follower]
            assert main(["topics", "--list", *words]) == 0
            assert f"t{number}" in capsys.readouterr().out.split()
            assert main(["topics", "--describe", "--topic", f"t{number}", *words]) == 0
            assert f"retention.ms={1000 + number}" in capsys.readouterr().out
            client.alter_configs("topics", f"t{number}", {"retention.ms": 7000 + number})
            assert main(["configs", "--describe", "--topic", f"t{number}", *words]) == 0
            assert str(7000 + number) in capsys.readouterr().out

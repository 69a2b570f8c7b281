"""A cluster that lost two of three controllers for good is repaired; its brokers lose nothing."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli import main
from tests.client.waiting import until
from tests.server.clients import TOPIC
from tests.server.quorum_of_processes import (
    BROKER,
    BROKER_FILE,
    CONTROLLERS,
    Quorum,
    format_node,
)
from tests.server.replication_load import (
    PARTITIONS,
    Writer,
    expect_acknowledged,
    write_with_confluent,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

LOST, SURVIVOR = CONTROLLERS[:2], CONTROLLERS[2]
BROKERS = (BROKER, 5, 6)
SETTINGS = "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"


class RepairableCluster(Quorum):
    """Three controllers and three brokers, which have a topic with three replicas."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SETTINGS, dynamic=True, all_vote=True)

    def start_all(self) -> None:
        self.start(*CONTROLLERS, BROKER)
        self.add(*BROKERS[1:], template=BROKER_FILE + SETTINGS)
        with self.client() as client:
            client.create_topic(TOPIC, PARTITIONS, replication_factor=len(BROKERS))

    @property
    def servers(self) -> str:
        return ",".join([f"127.0.0.1:{self.ports[broker]}" for broker in BROKERS])

    def client(self) -> Client:
        return Client(self.servers, timeout_s=LIMIT_S)

    def lose(self, *node_ids: int) -> None:
        """Kill nodes and delete their directories."""
        for node_id in node_ids:
            self.kill(node_id)
            shutil.rmtree(self.data(node_id))

    def repair(self, node_id: int, capsys: pytest.CaptureFixture[str]) -> None:
        """Kill a controller, run `quorum repair` and the command that it prints, and restart it."""
        self.kill(node_id)
        voters = f"{node_id}@127.0.0.1:{self.ports[node_id]}"
        words = ["quorum", "repair", "--data", self.data(node_id), "--voters", voters]
        capsys.readouterr()
        assert main(words) == 1
        command = capsys.readouterr().out.splitlines()[-1].split()
        assert command[:3] == ["kraftlog", "quorum", "repair"]
        assert main(command[1:]) == 0
        self.start(node_id)

    def replace(self, node_id: int) -> None:
        """Give a lost voter an empty directory, and add it again."""
        format_node(self.file(node_id), "--no-initial-controllers")
        self.start(node_id)
        words = ["quorum", "add-controller", "--bootstrap-server", self.servers]
        words += ["--command-config", self.file(node_id)]
        until(lambda: main(words), 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RepairableCluster]:
    cluster = RepairableCluster(tmp_path)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def writer(cluster: RepairableCluster) -> Iterator[Writer]:
    started = Writer(write_with_confluent(cluster.servers))
    try:
        started.await_more()
        yield started
    finally:
        started.stop()


@pytest.mark.long
@pytest.mark.parametrize("brokers_run", [True, False], ids=["brokers run", "brokers are stopped"])
def test_no_acknowledged_record_is_lost_by_a_repair(
    cluster: RepairableCluster,
    writer: Writer,
    capsys: pytest.CaptureFixture[str],
    *,
    brokers_run: bool,
) -> None:
    """Brokers serve their clients while the quorum has lost two of three controllers."""
    cluster.lose(*LOST)
    writer.await_more()
    if not brokers_run:
        for broker in BROKERS:
            cluster.kill(broker)
    cluster.repair(SURVIVOR, capsys)
    if not brokers_run:
        cluster.start(*BROKERS)
    with cluster.client() as client:
        client.create_topic("after-the-repair")
        writer.await_more()
        for lost in LOST:
            cluster.replace(lost)
        # The new voters are a majority without the repaired one.
        cluster.kill(SURVIVOR)
        client.create_topic("by-the-new-majority")
        cluster.kill(client.describe_topic(TOPIC).partitions[0].leader)
        writer.await_more()
        writer.stop()
        expect_acknowledged(cluster, writer)


@pytest.mark.long
def test_brokers_with_a_longer_log_follow_the_repaired_controller(
    cluster: RepairableCluster, writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic that the surviving log lacks is lost; its records stay on disk, as strays."""
    with cluster.client() as client:
        cluster.nodes[SURVIVOR].process.send_signal(signal.SIGSTOP)
        client.create_topic("unknown", 1, replication_factor=len(BROKERS))
        client.produce("unknown", "stays on disk")
        cluster.lose(*LOST)
        writer.await_more()
        for broker in BROKERS:
            cluster.kill(broker)
        cluster.repair(SURVIVOR, capsys)
        cluster.start(*BROKERS)
        client.create_topic("later")
        writer.await_more()
        writer.stop()
        expect_acknowledged(cluster, writer)
        assert {each.name for each in client.topics()} == {TOPIC, "later"}
    for broker in BROKERS:
        (stray,) = Path(cluster.data(broker)).glob("unknown-0*-stray")
        assert b"stays on disk" in (stray / f"{0:020d}.log").read_bytes()

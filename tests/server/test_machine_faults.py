"""One of three nodes runs on a faulty machine; no acknowledged record is lost."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.ports import free_ports
from tests.server.clients import TOPIC
from tests.server.replication_load import (
    NODES,
    Writer,
    await_isr,
    expect_acknowledged,
    replicated_cluster,
    until,
    write_with_confluent,
)
from tests.server.with_limits import FILE_BYTES
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.local_cluster import LocalCluster

#: The node on the faulty machine. Node 1 is the active controller at first.
NODE = 3
RECORD_BYTES = 2_000
#: The largest file that the node with the full disk can write.
DISK_BYTES = 100 * RECORD_BYTES


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    yield from replicated_cluster(tmp_path, "replica.lag.time.max.ms=1500")


@pytest.fixture
def writer(cluster: LocalCluster) -> Iterator[Writer]:
    started = Writer(write_with_confluent(cluster.servers, RECORD_BYTES))
    try:
        started.await_more()
        yield started
    finally:
        started.stop()


def copied_properties(cluster: LocalCluster, folder: Path) -> str:
    """Copy the directory of `NODE`; return the path of a properties file with other ports."""
    shutil.copytree(f"{cluster.data}/node-{NODE}", folder / "copy")
    with open(cluster.file(NODE)) as file:
        text = file.read()
    broker, controller = free_ports(2)
    listeners = f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}"
    text = re.sub(r"(?m)^listeners=.*$", f"listeners={listeners}", text)
    text = re.sub(r"(?m)^log.dirs=.*$", f"log.dirs={folder / 'copy'}", text)
    path = folder / "copy.properties"
    path.write_text(text)
    return str(path)


def test_q5_a_copy_of_a_directory_stops_with_the_reason(
    cluster: LocalCluster, writer: Writer, tmp_path: Path
) -> None:
    """Otherwise the copy would vote and fetch with the node id of the original."""
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        before = client.describe_quorum()
        path = copied_properties(cluster, tmp_path)
        copy = subprocess.run(
            [sys.executable, "-m", "kraftlog", "start", path],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert copy.returncode == 1
        assert f"another process is running as node {NODE}" in copy.stderr
        assert "is a copy of its directory" in copy.stderr
        writer.await_more()
        # The copy may have put its address into the record of the voter.
        until(
            lambda: client.describe_quorum().listeners == before.listeners, "the voters' addresses"
        )
    await_isr(cluster, *NODES)
    writer.stop()
    expect_acknowledged(cluster, writer)


def test_a_broker_whose_clock_is_an_hour_ahead_works(cluster: LocalCluster, writer: Writer) -> None:
    cluster.kill(NODE)
    writer.await_more()
    cluster.restart(NODE, "tests.server.with_clock_ahead")
    await_isr(cluster, *NODES)
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        # First the node leads every partition, then node 1 does.
        for replicas in ([NODE, 1, 2], [1, 2, NODE]):
            targets = {
                (TOPIC, each.index): replicas for each in client.describe_topic(TOPIC).partitions
            }
            assert client.reassign_partitions(targets) == {}
            client.elect_preferred_leaders(targets)
            until(partial(leads_all, client, replicas[0]), f"node {replicas[0]} leads")
            writer.await_more()
    await_isr(cluster, *NODES)
    writer.stop()
    expect_acknowledged(cluster, writer)


def test_a_full_disk_on_one_of_three_stops_no_producer(
    cluster: LocalCluster, writer: Writer
) -> None:
    """The replicas on the full disk leave the ISR, and return once there is space again."""
    cluster.kill(NODE)
    await_isr(cluster, 1, 2)
    cluster.restart(NODE, "tests.server.with_limits", **{FILE_BYTES: str(DISK_BYTES)})
    cluster.await_line("were not written: File too large")
    until(lambda: has_left_every_isr(cluster), "the full node leaves the ISR")
    writer.await_more(10 * DISK_BYTES // RECORD_BYTES)
    cluster.kill(NODE)
    cluster.restart(NODE)
    await_isr(cluster, *NODES)
    writer.await_more()
    writer.stop()
    expect_acknowledged(cluster, writer)


def leads_all(client: Client, node: int) -> bool:
    return all(each.leader == node for each in client.describe_topic(TOPIC).partitions)


def has_left_every_isr(cluster: LocalCluster) -> bool:
    """Whether node 1 reports no partition with `NODE` in the ISR."""
    with Client(cluster.address(1), timeout_s=LIMIT_S) as client:
        return all(NODE not in each.isr for each in client.describe_topic(TOPIC).partitions)

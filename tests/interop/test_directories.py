"""A directory of Apache Kafka starts here, and one of ours with Kafka, fresh and with records."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.client.client import Client
from tests.interop.consumer_group_client import LAST, GroupClient
from tests.interop.kafka_broker import standalone_properties, start_kafka
from tests.interop.kafka_jars import previous_kafka_libs
from tests.interop.test_consumer_groups import wait_for_coordinator
from tests.interop.test_format import TOOL
from tests.interop.tool_session import CLASSES
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

#: The features of Kafka 4.4's default format that brokers of kraftlog do not support.
UNSUPPORTED = {
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}


def levels(address: str) -> dict[str, int]:
    """The feature levels of the cluster, without those at 0."""
    with Client(address, timeout_s=LIMIT_S) as client:
        return {it.name: it.level for it in client.features().features if it.level}


def start_of_ours(path: str) -> subprocess.CompletedProcess[str]:
    """A start that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "kraftlog", "start", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_our_node_starts_on_a_directory_that_kafka_has_formatted(
    jvm: Driver, tmp_path: Path
) -> None:
    """With Kafka's default features: those that our brokers do not support begin at level 0."""
    path, _ = standalone_properties(str(tmp_path))
    jvm.tool(TOOL, "format", "-c", path, "-t", "abc", "--standalone").ok()
    for _ in range(2):
        node = NodeProcess(None, path, topics={"orders": 2}, errors=str(tmp_path / "errors.txt"))
        try:
            assert levels(node.address) == {
                "metadata.version": 33,
                "group.version": 1,
                "eligible.leader.replicas.version": 1,
                "kraft.version": 1,
            }
            assert node.stop() == 0
        finally:
            node.kill_if_running()


@pytest.mark.long
def test_a_used_directory_goes_from_kafka_to_ours_and_back(jvm: Driver, tmp_path: Path) -> None:
    """At first our node ends, and names each level and the command that lowers it."""
    path, address = standalone_properties(str(tmp_path))
    jvm.tool(TOOL, "format", "-c", path, "-t", "abc", "--standalone").ok()
    flags = [f"--feature {name}=0" for name in UNSUPPORTED]
    with start_kafka(path, str(tmp_path)), Client(address, timeout_s=LIMIT_S) as client:
        client.create_topic("orders")
        client.produce("orders", b"from kafka")
        in_kafka = form_group(address)
    refused = start_of_ours(path)
    assert refused.returncode == 1
    named = ", ".join([f"{name}={level}" for name, level in UNSUPPORTED.items()])
    assert f"the cluster has {named}, which brokers of this version" in refused.stderr
    assert f"downgrade {' '.join(flags)}" in refused.stderr
    with start_kafka(path, str(tmp_path)):
        words = " ".join(flags).split()
        done = jvm.tool(
            CLASSES["kafka-features"], "--bootstrap-server", address, "downgrade", *words
        )
        assert done.exit_code == 0, done.stderr
    node = NodeProcess(None, path, topics={}, errors=str(tmp_path / "errors.txt"))
    try:
        with Client(node.address, timeout_s=LIMIT_S) as client:
            client.produce("orders", b"from ours")
            client.create_topic("more")
        in_ours = grow_group(node.address, in_kafka)
        assert node.stop() == 0
    finally:
        node.kill_if_running()
    with start_kafka(path, str(tmp_path)), Client(address, timeout_s=LIMIT_S) as client:
        assert {"orders", "more"} <= {topic.name for topic in client.topics()}
        check_group(address, in_ours).close()
        with client.consume("orders", "beginning", until_end=True) as records:
            values = [record.value for record in records]
    assert values == [b"from kafka", b"from ours"]


def form_group(address: str) -> dict[str, Any]:
    """Let two members of the consumer protocol join; return the group's description."""
    wait_for_coordinator(address)
    client = GroupClient(address, "g")
    client.learn_topics("orders")
    client.join("a", ["orders"], instance="i")
    client.join("b", ["orders"])
    client.heartbeat("a", owned=LAST, instance="i")
    client.commit("a", client.epochs["a"], ("orders", 0))
    described = client.describe()
    client.close()
    return described


def check_group(address: str, expected: dict[str, Any]) -> GroupClient:
    """The members go on in their epochs: the topics have the hash that the group's record has."""
    wait_for_coordinator(address)
    client = GroupClient(address, "g")
    client.learn_topics("orders")
    assert client.describe() == expected
    for name, member in expected["members"].items():
        beat = client.heartbeat(name, member["member_epoch"], instance=member["instance_id"])
        assert (beat["code"], beat["epoch"]) == (0, member["member_epoch"])
    assert client.describe() == expected
    assert client.fetch(None, -1) == (0, {"orders": {0: 7}})
    return client


def grow_group(address: str, expected: dict[str, Any]) -> dict[str, Any]:
    """Let the group go on, then change it; return its description."""
    client = check_group(address, expected)
    client.heartbeat("b", -1)
    client.heartbeat("a", instance="i")
    client.heartbeat("a", -2, instance="i")
    client.join("c", ["orders"], instance="i")
    client.join("d", ["orders", "absent"])
    client.heartbeat("c", owned=LAST, instance="i")
    described = client.describe()
    client.close()
    return described


@pytest.mark.long
def test_kafka_4_3_starts_on_a_directory_formatted_for_it(kafka_jars: str, tmp_path: Path) -> None:
    """It reads the voters; the levels it takes from itself, as it reads only the former file."""
    assert kafka_jars
    path, address = standalone_properties(str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "kraftlog", "format", "-c", path, "--standalone", "-r", "4.3"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "4.3-IV0" in done.stdout
    with start_kafka(path, str(tmp_path), previous_kafka_libs()):
        assert levels(address)["metadata.version"] == 30
    node = NodeProcess(None, path, topics={"orders": 1}, errors=str(tmp_path / "errors.txt"))
    try:
        assert levels(node.address)["metadata.version"] == 30
        assert node.stop() == 0
    finally:
        node.kill_if_running()

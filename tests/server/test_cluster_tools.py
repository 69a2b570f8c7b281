"""Kafka's tools administer a replicated cluster of real processes."""

from __future__ import annotations

import filecmp
import json
import os
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli import main
from tests.client.waiting import until
from tests.interop.tool_session import CLASSES
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kraftlog.client.model import Topic
    from tests.interop.driver import Driver

#: Leaders move only when a tool asks for it.
SETTINGS = (
    "auto.leader.rebalance.enable=false",
    "min.insync.replicas=2",
    "broker.session.timeout.ms=2000",
    "broker.heartbeat.interval.ms=300",
)
PREFERRED = ("--election-type", "preferred")
RECORDS = 50
#: Topic -> the replicas of its only partition.
TOPICS = {"moved": [1, 2], "pending": [2, 1], "wide": [3, 1, 2], "narrow": [3]}


class Tools:
    """Kafka's tools on a cluster with `TOPICS`, and its files."""

    def __init__(self, jvm: Driver, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.client = Client(cluster.servers, timeout_s=LIMIT_S)
        self._jvm = jvm
        self._folder = folder

    def run(self, tool: str, *words: str, code: int = 0) -> str:
        address = ("--bootstrap-server", self.cluster.servers)
        done = self._jvm.tool(CLASSES[tool], *address, *words)
        assert done.exit_code == code, done.stdout + done.stderr
        return done.stdout

    def reassign(self, topic: str, replicas: list[int], *words: str, code: int = 0) -> str:
        """Run kafka-reassign-partitions with these target replicas."""
        words = ("--reassignment-json-file", self.reassignment_file(topic, replicas), *words)
        return self.run("kafka-reassign-partitions", *words, code=code)

    def reassignment_file(self, topic: str, replicas: list[int]) -> str:
        """Write a file with these target replicas; return its path."""
        file = self._folder / "reassignment.json"
        parts = [{"topic": topic, "partition": 0, "replicas": replicas}]
        file.write_text(json.dumps({"version": 1, "partitions": parts}))
        return str(file)

    def await_partition(self, topic: str, **expected: object) -> None:
        """Wait until the topic's partition has these properties; the ISR is compared sorted."""

        def described() -> dict[str, object]:
            partition = self.client.describe_topic(topic).partitions[0]
            properties: dict[str, object] = {
                "leader": partition.leader,
                "replicas": partition.replicas,
                "isr": tuple(sorted(partition.isr)),
            }
            return {name: properties[name] for name in expected}

        until(described, expected)

    def folder(self, node: int, topic: str) -> str:
        return f"{self.cluster.data}/node-{node}/{topic}-0"


@pytest.fixture(scope="module")
def tools(jvm: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("cluster")
    cluster = LocalCluster(folder, *[word for each in SETTINGS for word in ("--override", each)])
    try:
        tools = Tools(jvm, cluster, folder)
        with tools.client as client:
            for topic, replicas in TOPICS.items():
                client.create_topic(topic, assignment={0: replicas})
            with client.producer() as producer:
                for topic in TOPICS:
                    for number in range(RECORDS):
                        producer.send(topic, b"%d" % number)
            yield tools
    finally:
        cluster.end()


def test_v10_a_replica_moves_with_its_records(tools: Tools) -> None:
    """C234: the new broker leads, and the former one deletes its replica."""
    shown = tools.reassign("moved", [3, 2], "--execute")
    assert "Successfully started partition reassignment for moved-0" in shown
    tools.await_partition("moved", replicas=(3, 2), isr=(2, 3))
    shown = tools.reassign("moved", [3, 2], "--verify")
    assert "Reassignment of partition moved-0 is completed." in shown
    until(lambda: os.path.exists(tools.folder(1, "moved")), False)
    tools.await_partition("moved", leader=3)
    with tools.client.consume("moved", "beginning", until_end=True) as records:
        assert [record.value for record in records] == [b"%d" % each for each in range(RECORDS)]
    for name in os.listdir(tools.folder(2, "moved")):
        if name.endswith(".log"):
            original, copy = (f"{tools.folder(node, 'moved')}/{name}" for node in (2, 3))
            assert filecmp.cmp(original, copy, shallow=False)


def test_v10_a_reassignment_is_shown_replaced_and_cancelled(tools: Tools) -> None:
    """The target broker is down, so the reassignment stays in progress.

    Our client starts it, because Kafka's tool refuses a target broker that is down.
    """
    partition = "pending", 0
    tools.cluster.kill(3)
    try:
        assert tools.client.reassign_partitions({partition: [3, 2]}) == {}
        shown = tools.reassign("pending", [3, 2], "--verify")
        assert "Reassignment of partition pending-0 is still in progress." in shown
        assert tools.client.reassign_partitions({partition: [3, 1]}) == {}
        shown = tools.run("kafka-reassign-partitions", "--list")
        assert "pending-0: replicas: 3,1,2. adding: 3. removing: 2." in shown
        shown = tools.reassign("pending", [3, 1], "--cancel", "--preserve-throttles")
        assert "Successfully cancelled partition reassignment for: pending-0" in shown
        shown = tools.run("kafka-reassign-partitions", "--list")
        assert "No partition reassignments found." in shown
        tools.await_partition("pending", replicas=(1, 2), isr=(1, 2))
    finally:
        tools.cluster.restart(3)


#: The settings of throttles, by kind of resource.
THROTTLES = {
    "brokers": ("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
    "topics": ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
}


def throttles(tools: Tools, topic: str) -> dict[tuple[str, str], list[str | None]]:
    """The throttles of each broker and of the topic, without resources that have none."""
    by_resource = {}
    for kind, names in (("brokers", ("1", "2", "3")), ("topics", (topic,))):
        for name in names:
            settings = {it.name: it for it in tools.client.describe_configs(kind, name)}
            values = [settings[key].value for key in THROTTLES[kind] if key in settings]
            if any(values):
                by_resource[kind, name] = values
    return by_resource


@pytest.mark.parametrize("with_kafkas_tool", [True, False])
def test_v10_a_throttled_reassignment_ends_without_throttles(
    tools: Tools, with_kafkas_tool: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One tool, Kafka's or ours, sets the throttles; the other verifies and removes them."""
    rate = "3000000"
    topic = f"throttled-{with_kafkas_tool}"
    tools.client.create_topic(topic, assignment={0: [1, 2]})
    words = ["reassign", "--bootstrap-server", tools.cluster.servers]
    file = ["--reassignment-json-file", tools.reassignment_file(topic, [1, 3])]
    if with_kafkas_tool:
        shown = tools.run("kafka-reassign-partitions", *file, "--execute", "--throttle", rate)
    else:
        assert main([*words, *file, "--execute", "--throttle", rate]) == 0
        shown = capsys.readouterr().out
    assert f"The inter-broker throttle limit was set to {rate} B/s" in shown
    brokers = {("brokers", each): [rate, rate] for each in "123"}
    assert throttles(tools, topic) == {**brokers, ("topics", topic): ["0:1,0:2", "0:3"]}
    tools.await_partition(topic, replicas=(1, 3), isr=(1, 3))
    until(tools.client.reassignments, {})
    if with_kafkas_tool:
        assert main([*words, *file, "--verify"]) == 0
    else:
        tools.run("kafka-reassign-partitions", *file, "--verify")
    until(lambda: throttles(tools, topic), {})
    tools.client.delete_topic(topic)


def test_v2_kafkas_tool_finds_partitions_affected_by_a_dead_broker(tools: Tools) -> None:
    def described(filter_name: str) -> list[str]:
        shown = tools.run("kafka-topics", "--describe", f"--{filter_name}-partitions")
        return sorted(re.findall(r"Topic: (\w+)", shown))

    assert tools.client.reassign_partitions({("moved", 0): [3, 2]}) == {}
    tools.await_partition("moved", replicas=(3, 2), isr=(2, 3))
    tools.await_partition("wide", isr=(1, 2, 3))  # an earlier test has restarted broker 3
    tools.cluster.kill(3)
    try:
        tools.await_partition("wide", isr=(1, 2), leader=1)
        tools.await_partition("narrow", leader=-1)
        # Each tool asks any broker, and brokers replay metadata at their own pace.
        until(lambda: described("under-replicated"), ["moved", "narrow", "wide"])
        until(lambda: described("unavailable"), ["narrow"])
        until(lambda: described("under-min-isr"), ["moved", "narrow"])
    finally:
        tools.cluster.restart(3)
    tools.await_partition("wide", isr=(1, 2, 3), leader=1)
    shown = tools.run("kafka-leader-election", *PREFERRED, "--topic", "wide", "--partition", "0")
    assert "Successfully completed leader election (PREFERRED) for partitions wide-0" in shown
    tools.await_partition("wide", leader=3)
    until(lambda: described("under-replicated"), [])


def test_kafkas_tool_shows_sizes_and_lags_of_replicas(tools: Tools) -> None:
    shown = tools.run("kafka-log-dirs", "--describe", "--topic-list", "wide").splitlines()[-1]
    replicas = {
        each["broker"]: part
        for each in json.loads(shown)["brokers"]
        for part in each["logDirs"][0]["partitions"]
    }
    assert [*replicas] == [1, 2, 3]
    assert len({part["size"] for part in replicas.values()}) == 1
    assert {part["offsetLag"] for part in replicas.values()} == {0}


def test_kafkas_tool_shows_voters_and_their_lags(tools: Tools) -> None:
    shown = tools.run("kafka-metadata-quorum", "describe", "--status")
    leader = int(re.findall(r"LeaderId: +(\d+)", shown)[0])
    assert [int(each) for each in re.findall(r'"id": (\d)', shown)] == [1, 2, 3]
    rows = tools.run("kafka-metadata-quorum", "describe", "--replication").splitlines()[1:]
    roles = {int(row.split()[0]): row.split()[-1] for row in rows if row.strip()}
    assert roles == {node: "Leader" if node == leader else "Follower" for node in (1, 2, 3)}


def test_v10_our_command_balances_the_cluster(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command returns once all replicas are in sync; then a dry run proposes nothing."""
    words = ["reassign", "--bootstrap-server", tools.cluster.servers, "--balance"]
    crowded = {index: [1, 2] for index in range(6)}
    tools.client.create_topic("crowded", assignment=crowded)
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "Successfully started partition reassignments for crowded-" in shown.out
    assert re.search(r"(\d+) of \1 partitions done, (\d+) of \2 replicas in sync\n$", shown.err)
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out == "The partitions are balanced.\n"
    replica_counts = Counter(
        broker
        for topic in tools.client.topics()
        for each in topic.partitions
        for broker in each.replicas
    )
    assert max(replica_counts.values()) - min(replica_counts.values()) <= 1
    until(lambda: not_led_by_preferred(tools.client.describe_topic("crowded")), [])
    with tools.client.consume("wide", "beginning", until_end=True) as records:
        assert len([*records]) == RECORDS


def not_led_by_preferred(topic: Topic) -> list[int]:
    """The partitions whose leader is not their preferred (first) replica."""
    return [each.index for each in topic.partitions if each.leader != each.replicas[0]]

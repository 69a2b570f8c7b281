"""kraftlog's commands print the same about a Kafka broker as Kafka's tools."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.client import group_membership
from kraftlog.groups.shard import partition_of
from tests.client.waiting import until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.shell import Shell
    from tests.interop.driver import Driver

    Named = Callable[[str], str]

TOOLS = "org.apache.kafka.tools."
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"


class KafkaTools:
    """Runs Kafka's tools against the broker."""

    def __init__(self, jvm: Driver, address: str) -> None:
        self._jvm = jvm
        self.address = address

    def run(self, tool: str, line: str, *words: str, stdin: bytes = b"") -> str:
        server_options = ["--bootstrap-server", self.address]
        arguments = [*line.split(), *words, *server_options]
        if tool.endswith(("QuorumCommand", "FeatureCommand")):  # options come first
            arguments = [*server_options, *line.split(), *words]
        return self._jvm.tool(tool, *arguments, stdin=stdin).ok().stdout


@pytest.fixture
def tools(jvm: Driver, kafka: str) -> KafkaTools:
    return KafkaTools(jvm, kafka)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_topics_are_described_and_listed_alike(
    tools: KafkaTools, kafka_shell: Shell, named: Named
) -> None:
    topic = named("t")
    kafka_shell.run(f"topics --create --topic {topic} --partitions 3 --config retention.ms=9")
    theirs = tools.run(TOOLS + "TopicCommand", f"--describe --topic {topic}").splitlines()
    (ours,) = kafka_shell.json(f"topics --describe --topic {topic}")
    assert f"TopicId: {ours['id']}" in theirs[0]
    assert "PartitionCount: 3\t" in theirs[0]
    configs = theirs[0].partition("Configs: ")[2]
    assert dict([pair.split("=") for pair in configs.split(",")]) == ours["configs"]
    lines = [
        f"\tTopic: {topic}\tPartition: {each['partition']}\tLeader: {each['leader']}\t"
        f"Replicas: {each['replicas'][0]}\tIsr: {each['isr'][0]}\tElr: \tLastKnownElr: "
        for each in ours["partitions"]
    ]
    assert theirs[1:] == lines
    listed = tools.run(TOOLS + "TopicCommand", "--list").split()
    assert kafka_shell.run("topics --list").split() == sorted(listed)


def test_offsets_directories_and_features_are_printed_alike(
    tools: KafkaTools, kafka_shell: Shell, named: Named
) -> None:
    topic = named("t")
    kafka_shell.run(f"topics --create --topic {topic} --partitions 2")
    kafka_shell.feed(b"1\n2\n3\n", f"produce --topic {topic}")
    for flags in (f"--topic {topic}", f"--topic-partitions {topic}:1 --time earliest"):
        assert kafka_shell.run(f"offsets {flags}") == tools.run(TOOLS + "GetOffsetShell", flags)
    flags = f"--describe --topic-list {topic}"
    theirs = json.loads(tools.run(TOOLS + "LogDirsCommand", flags).splitlines()[-1])
    theirs["brokers"][0]["logDirs"][0]["partitions"].sort(key=lambda each: each["partition"])
    assert kafka_shell.json(f"log-dirs {flags}") == theirs
    assert "GiB free" in kafka_shell.run(f"log-dirs {flags} --broker-list 1")
    assert "broker 9 is not in the cluster" in kafka_shell.fails("log-dirs --broker-list 9")
    lines = tools.run(TOOLS + "FeatureCommand", "describe")
    levels = re.findall(r"Feature: (\S+).*Level: (\S+)", lines)
    ours = rows(kafka_shell.run("features describe"))[1:-1]
    assert [(row[0], row[3]) for row in ours] == levels


def test_q34_the_cluster_id_and_the_quorum_are_printed_alike(
    tools: KafkaTools, kafka_shell: Shell
) -> None:
    """The lines of `describe --status` are those of Kafka's tool."""
    theirs_id = tools.run(TOOLS + "ClusterTool", "cluster-id")
    assert theirs_id == f"Cluster ID: {kafka_shell.run('cluster cluster-id')}"
    theirs = tools.run(TOOLS + "MetadataQuorumCommand", "describe --status").splitlines()
    ours = kafka_shell.run("quorum describe --status").splitlines()
    changing_lines = ("HighWatermark", "MaxFollowerLag")
    assert [line for line in ours if not line.startswith(changing_lines)] == [
        line for line in theirs if not line.startswith(changing_lines)
    ]


def test_groups_are_described_reset_and_listed_alike(
    tools: KafkaTools, kafka_shell: Shell, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Kafka's tools are slow, and the consumer sends no heartbeats while they run.
    monkeypatch.setattr(group_membership, "SESSION_TIMEOUT_S", 600)
    topic, group = named("t"), named("g")
    kafka_shell.run(f"topics --create --topic {topic} --partitions 2")
    kafka_shell.feed(b"1\n2\n3\n4\n", f"produce --topic {topic}")
    with (
        Client(tools.address, timeout_s=LIMIT_S) as client,
        client.consume(topic, "beginning", group=group, until_end=True) as records,
    ):
        assert len(list(records)) == 4
        records.commit()
        for flags in ("", "--members", "--state"):
            theirs = rows(tools.run(GROUPS, f"--describe --group {group} {flags}"))
            ours = rows(kafka_shell.run(f"groups --describe --group {group} {flags}"))
            if flags == "--state":  # ours prints the type too
                del ours[1][4]
            assert ours[1:] == theirs[1:]
        assert "is Stable with 1 members" in kafka_shell.fails(
            f"groups --reset-offsets --group {group} --topic {topic} --to-latest --execute"
        )
    reset = f"--reset-offsets --group {group} --topic {topic} --to-earliest"
    for flags in (f"{reset} --export --dry-run", f"{reset} --dry-run"):
        theirs = rows(tools.run(GROUPS, flags).replace('"', ""))  # Kafka quotes long names in CSV
        ours = rows(kafka_shell.run(f"groups {flags}"))
        assert sorted(ours[-2:]) == sorted(theirs[-2:])
    listed = tools.run(GROUPS, "--list").split()
    assert set(kafka_shell.run("groups --list").split()) == set(listed)


def test_configs_are_described_alike(tools: KafkaTools, kafka_shell: Shell, named: Named) -> None:
    topic = named("t")
    kafka_shell.run(f"topics --create --topic {topic} --config retention.ms=9")
    kafka_shell.run(f"configs --alter --topic {topic} --add-config cleanup.policy=[compact,delete]")
    expected = {"retention.ms", "cleanup.policy"}
    describe = f"configs --describe --topic {topic}"
    until(lambda: {each["key"] for each in kafka_shell.json(describe)[topic]}, expected)
    for flags, least_count in (
        (f"--describe --topic {topic}", 2),
        (f"--describe --topic {topic} --all", 20),
    ):
        described = tools.run("org.apache.kafka.tools.ConfigCommand", flags)
        theirs = dict(re.findall(r"^  ([^=]+)=(.*) sensitive=", described, re.MULTILINE))
        settings = kafka_shell.json(f"configs {flags}")[topic]
        assert len(settings) >= least_count
        assert {each["key"]: str(each["value"] or "") for each in settings} == theirs
        for each in settings:
            for synonym in each["synonyms"][:1]:
                assert f"{synonym['source']}:{synonym['key']}=" in described


def test_records_are_produced_and_consumed_alike(
    tools: KafkaTools, kafka_shell: Shell, named: Named
) -> None:
    """Both producers read the same lines the same way, and both consumers print the same."""
    lines = b"h1:v1,h2:v2;a=one\nh:;b=NULL\nNULL;c=three=3\nh:NULL;d=\xc3\xa9\n"
    reader_properties = (
        "parse.key=true",
        "key.separator==",
        "parse.headers=true",
        "null.marker=NULL",
        "headers.delimiter=;",
    )
    flags = [word for pair in reader_properties for word in ("--reader-property", pair)]
    ours, theirs = named("ours"), named("theirs")
    for topic in (ours, theirs):
        kafka_shell.run(f"topics --create --topic {topic} --partitions 1")
    kafka_shell.feed(lines, f"produce --topic {ours} --compression-codec zstd", *flags)
    tools.run(TOOLS + "ConsoleProducer", f"--topic {theirs}", *flags, stdin=lines)
    print_all = [
        word
        for name in ("key", "headers", "partition", "offset", "timestamp")
        for word in ("--formatter-property", f"print.{name}=true")
    ]
    read = "--from-beginning --max-messages 4 --formatter-property null.literal=~ --topic"
    texts = []
    for topic in (ours, theirs):
        text = kafka_shell.run(f"consume {read} {topic}", *print_all)
        consumer = TOOLS + "consumer.ConsoleConsumer"
        assert text == tools.run(consumer, f"{read} {topic}", *print_all)
        texts.append(re.sub(r"Time:\d+", "", text))
    assert texts[0] == texts[1]


def test_records_are_deleted_before_an_offset(
    tools: KafkaTools, kafka_shell: Shell, named: Named, tmp_path: Path
) -> None:
    topic = named("t")
    kafka_shell.run(f"topics --create --topic {topic} --partitions 1")
    kafka_shell.feed(b"1\n2\n3\n", f"produce --topic {topic}")
    file = tmp_path / "offsets.json"
    file.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]})
    )
    (row,) = kafka_shell.json(f"delete-records --offset-json-file {file}")
    assert row == {"topic": topic, "partition": 0, "first_offset": 2}
    assert tools.run(TOOLS + "GetOffsetShell", f"--topic {topic} --time -2") == f"{topic}:0:2\n"
    file.write_text('{"partitions": [{"topic": "a"}]}')
    assert "expected" in kafka_shell.fails(f"delete-records --offset-json-file {file}")


def test_coordinator_records_are_formatted_alike(
    tools: KafkaTools, kafka_shell: Shell, named: Named
) -> None:
    """Kafka's formatters print no line ends; ours do."""
    topic, group = named("t"), named("g")
    kafka_shell.run(f"topics --create --topic {topic} --partitions 1")
    kafka_shell.feed(b"1\n", f"produce --topic {topic}")
    kafka_shell.run(f"consume --topic {topic} --from-beginning --max-messages 1 --group {group}")
    offsets = "__consumer_offsets"
    with Client(tools.address, timeout_s=LIMIT_S) as client:
        partition = partition_of(group, len(client.describe_topic(offsets).partitions))
        count = client.offsets(offsets, partitions=[partition])[partition].offset
    read = f"--topic {offsets} --partition {partition} --offset earliest --max-messages {count}"
    for kind in ("Offsets", "GroupMetadata"):
        words = f"{read} --formatter {TOOLS}consumer.{kind}MessageFormatter"
        ours = kafka_shell.run(f"consume {words}").splitlines()
        assert "".join(ours) == tools.run(TOOLS + "consumer.ConsoleConsumer", words)
        assert any(group in line for line in ours)
        assert kafka_shell.json(f"consume {words} --max-messages 1")["offset"] == 0
    words = f"{read} --formatter TransactionLogMessageFormatter"
    assert kafka_shell.run(f"consume {words}") == ""

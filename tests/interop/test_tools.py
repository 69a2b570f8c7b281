"""Kafka's tools print the same about a node as about a Kafka broker.

`facts.txt` is their output for Apache Kafka; permitted differences are listed below with reasons.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from difflib import ndiff
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from tests.interop.kafka_broker import standalone_properties
from tests.interop.metadata_shell import metadata_shell
from tests.interop.test_dump_log import dump_output
from tests.interop.tool_session import FACTS, CommandOutput, read, session
from tests.server.node_process import NodeProcess, create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

APIS = "kafka-broker-api-versions"
#: How many times a tool is run that may have read before all records arrived.
ATTEMPTS = 20
#: APIs of 4.4 that nodes do not support; an entry that is supported is an error.
NOT_SERVED = """
    AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit
    DescribeTransactions ListTransactions
    ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge InitializeShareGroupState
    ReadShareGroupState WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary
    DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets
    StreamsGroupHeartbeat StreamsGroupDescribe StreamsGroupTopologyDescriptionUpdate
"""
#: Patterns of lines that may differ, with reasons; one that does not differ is an error.
DIFFERENCES = {
    "kafka-features describe": (
        r"Feature: (metadata|share|streams|transaction)\.version ",
        "features that kraftlog lacks are not offered, and metadata.version has one level",
    ),
    (
        "kafka-configs --entity-type topics --entity-name orders"
        " --alter --add-config cleanup.policy=shred"
    ): (
        r"InvalidConfigurationException: .*shred",
        "kraftlog's message has the key, the value and what was expected",
    ),
    "kafka-configs --entity-type brokers --entity-name 1 --alter --add-config node.id=7": (
        r"org.apache.kafka.common.errors.*node\.id",
        "the message and the error code differ: kraftlog returns INVALID_CONFIG",
    ),
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node without topics, which must stop without output."""
    node = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={})
    try:
        yield node
        assert node.stop() == 0
        assert node.logged_errors() == []
    finally:
        node.kill_if_running()


def test_tools_print_the_same_as_with_kafka(jvm: Driver, node: NodeProcess, tmp_path: Path) -> None:
    with open(FACTS, encoding="utf-8") as file:
        facts = {done.line: done.shown for done in numbered(read(file.read()))}
    ours = {done.line: done.shown for done in numbered(session(jvm, node.address, str(tmp_path)))}
    assert list(ours) == list(facts)
    unserved = set(re.findall(r"(\w+)\(\d+\): UNSUPPORTED", ours.pop(f"{APIS} (1)")))
    unserved -= set(re.findall(r"(\w+)\(\d+\): UNSUPPORTED", facts[f"{APIS} (1)"]))
    assert unserved == set(NOT_SERVED.split())
    changed = {line: unexpected_changes(line, facts[line], shown) for line, shown in ours.items()}
    assert {line: lines for line, lines in changed.items() if lines} == {}


def numbered(outputs: list[CommandOutput] | Iterator[CommandOutput]) -> Iterator[CommandOutput]:
    """Each command with the number of its occurrence, as some are repeated."""
    counts: dict[str, int] = {}
    for done in outputs:
        counts[done.line] = counts.get(done.line, 0) + 1
        yield CommandOutput(f"{done.line} ({counts[done.line]})", done.shown)


def unexpected_changes(line: str, theirs: str, ours: str) -> list[str]:
    """Unexpected differences, and expected ones that are missing."""
    changes = [
        change for change in ndiff(theirs.split("\n"), ours.split("\n")) if change[0] in "+-"
    ]
    pattern, _ = DIFFERENCES.get(line.rpartition(" (")[0], (None, ""))
    if pattern is None:
        return changes
    if not changes:
        return ["nothing differs"]
    return [change for change in changes if not re.search(pattern, change)]


def test_differences_are_found() -> None:
    """Unexpected differences are found, and expected ones that are missing."""
    may_differ = "kafka-features describe (1)"
    theirs, ours = "Feature: share.version a", "Feature: share.version b"
    assert unexpected_changes("kafka-topics --list (1)", "a\nb", "a\nc") == ["- b", "+ c"]
    assert unexpected_changes(may_differ, theirs, ours) == []
    assert unexpected_changes(may_differ, theirs, theirs) == ["nothing differs"]
    assert unexpected_changes(may_differ, theirs, f"{ours}\nx") == ["+ x"]


@pytest.fixture
def earlier_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with the metadata.version of Kafka 4.3, which Kafka's metadata shell knows."""
    path, _ = standalone_properties(str(tmp_path))
    assert main(["format", "-c", path, "--standalone", "-r", "4.3"]) == 0
    node = NodeProcess(None, path, errors=str(tmp_path / "errors.txt"), topics={})
    try:
        yield node
    finally:
        node.kill_if_running()


def test_kafkas_tools_read_the_metadata_log_of_a_running_node(
    jvm: Driver, earlier_node: NodeProcess, tmp_path: Path
) -> None:
    """Kafka's dump tool reads the log and the snapshot, and its shell a copy of the log."""
    create_topics(earlier_node.port, {"orders": 3, "audit": 1})
    folder = f"{tmp_path}/data/__cluster_metadata-0"
    [log], [snapshot] = glob.glob(f"{folder}/*.log"), glob.glob(f"{folder}/*.checkpoint")
    output = dump_output(jvm, "--cluster-metadata-decoder", "--files", f"{snapshot},{log}")
    assert "KRaftVoters" in output
    assert output.count('"type":"TOPIC_RECORD"') == 2
    assert output.count('"type":"PARTITION_RECORD"') == 4
    assert output.count('"type":"REGISTER_BROKER_RECORD"') == 1
    copied = shutil.copy(log, f"{tmp_path}/{os.path.basename(log)}")

    def shell(*words: str, wanted: str) -> str:
        """The output of Kafka's shell, which is run again until the output has `wanted`."""
        shown = ""
        for _ in range(ATTEMPTS):
            shown = metadata_shell(copied, *words)
            if wanted in shown:
                break
        return shown

    topics = "/image/topics/byName"
    assert shell("ls", topics, wanted="orders").split() == ["audit", "orders"]
    parts = shell("ls", f"{topics}/orders", wanted="2").split()
    assert parts == ["0", "1", "2", "id", "name"]
    for node_in_tree, expected in (
        (f"{topics}/orders/0", "replicas=[1]"),
        ("/image/cluster/brokers/1", "fenced=false"),
    ):
        assert expected in shell("cat", node_in_tree, wanted=expected)

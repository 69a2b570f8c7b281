"""Kafka's tools describe a node's logs and producers, and delete records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.server import clients
from tests.server.clients import KAFKA_TOOLS, produce_all

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver
    from tests.server.node_process import NodeProcess


def test_kafkas_tool_deletes_records(node: NodeProcess, jvm: Driver, tmp_path: Path) -> None:
    produce_all(node.address, [b"%d" % number for number in range(10)])
    deletions = {"version": 1, "partitions": [{"topic": "demo", "partition": 0, "offset": 7}]}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(deletions))
    words = ("--bootstrap-server", node.address, "--offset-json-file", str(file))
    shown = jvm.tool(KAFKA_TOOLS + "DeleteRecordsCommand", *words).ok().stdout
    assert "partition: demo-0\tlow_watermark: 7" in shown
    assert clients.java_offset(jvm, node.address, "-2") == "demo:0:7"


def test_kafkas_tool_describes_log_directories(
    node: NodeProcess, jvm: Driver, tmp_path: Path
) -> None:
    produce_all(node.address, [b"x" * 1000] * 10)
    words = ("--bootstrap-server", node.address, "--describe", "--topic-list", "demo")
    shown = jvm.tool(KAFKA_TOOLS + "LogDirsCommand", *words).ok().stdout
    [line] = [line for line in shown.splitlines() if line.startswith("{")]
    [broker] = json.loads(line)["brokers"]
    [directory] = broker["logDirs"]
    [partition] = directory["partitions"]
    assert directory["error"] is None
    assert partition["partition"] == "demo-0"
    [log] = (tmp_path / "data" / "demo-0").glob("*.log")
    assert partition["size"] == log.stat().st_size > 10_000
    assert partition["offsetLag"] == 0


def test_kafkas_tool_describes_producers(node: NodeProcess, jvm: Driver) -> None:
    produce_all(node.address, [b"x"] * 5, **{"enable.idempotence": True})
    words = ("--bootstrap-server", node.address, "describe-producers")
    shown = jvm.tool(
        KAFKA_TOOLS + "TransactionsCommand", *words, "--topic", "demo", "--partition", "0"
    ).ok()
    head, row = [line.split() for line in shown.stdout.splitlines() if line.strip()]
    producer = dict(zip(head, row, strict=True))
    assert (producer["ProducerEpoch"], producer["LastSequence"]) == ("0", "4")
    assert producer["CurrentTransactionStartOffset"] == "None"


def test_kafkas_idempotent_producer_works(node: NodeProcess, jvm: Driver) -> None:
    """With its default settings: five requests in flight."""
    shown = jvm.tool(
        KAFKA_TOOLS + "ProducerPerformance",
        *("--bootstrap-server", node.address, "--topic", "demo", "--throughput", "-1"),
        *("--num-records", "20000", "--record-size", "200"),
        *("--command-property", "linger.ms=0", "batch.size=2000"),
    ).ok()
    assert "20000 records sent" in shown.stdout
    assert clients.end_offset(node.address) == 20_000

"""Third-party clients against a node in its own process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.server import clients
from tests.server.clients import consume, produce_all
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

CODECS = ["gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_confluent_kafka_produces_and_consumes(node: NodeProcess, acks: str) -> None:
    values = [b"value %d" % n for n in range(5000)]
    produce_all(node.address, values, acks=acks)
    assert consume(node.address, len(values)) == values
    assert node.stop() == 0


def test_confluent_kafka_lists_topics(node: NodeProcess) -> None:
    assert clients.list_topics(node.address) == {"demo": 1}


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_read_back(node: NodeProcess, codec: str) -> None:
    values = [b"the same again and again %d" % n for n in range(2000)]
    produce_all(node.address, values, **{"compression.type": codec, "linger.ms": 50})
    assert consume(node.address, len(values)) == values


def test_large_messages_are_stored_and_read(node: NodeProcess) -> None:
    values = [bytes([n]) * 900_000 for n in range(20)]
    produce_all(node.address, values)
    assert consume(node.address, len(values)) == values


def test_kcat_lists_produces_and_consumes(node: NodeProcess, kcat: str) -> None:
    def run(*words: str, stdin: bytes = b"") -> str:
        return clients.run_kcat(kcat, node.address, *words, stdin=stdin)

    assert 'topic "demo" with 1 partitions' in run("-L")
    run("-P", "-t", "demo", stdin=b"one\ntwo\nthree\n")
    assert run("-C", "-t", "demo", "-e", "-q") == "one\ntwo\nthree\n"
    assert run("-C", "-t", "demo", "-o", "1", "-e", "-q", "-f", "%o %s\n") == "1 two\n2 three\n"


@clients.LEAVES_SOCKETS
def test_kafka_python_produces_and_consumes_with_every_codec(node: NodeProcess) -> None:
    written: list[bytes] = []
    for codec in [None, *CODECS]:
        values = [b"%s %d" % (str(codec).encode(), n) for n in range(300)]
        clients.kafka_python_produce(node.address, values, codec)
        written += values
    assert clients.kafka_python_consume(node.address, len(written)) == written
    assert consume(node.address, len(written)) == written


def test_aiokafka_produces_and_consumes_with_every_codec(node: NodeProcess) -> None:
    written: list[bytes] = []
    for codec in [None, *CODECS]:
        values = [b"%s %d" % (str(codec).encode(), n) for n in range(300)]
        clients.aiokafka_produce(node.address, values, codec)
        written += values
    assert clients.aiokafka_consume(node.address, len(written)) == written
    assert consume(node.address, len(written)) == written


def test_kafkas_console_tools_work_with_every_codec(node: NodeProcess, jvm: Driver) -> None:
    written: list[bytes] = []
    for codec in [None, *CODECS]:
        values = [b"%s %d" % (str(codec).encode(), n) for n in range(50)]
        clients.java_produce(jvm, node.address, values, codec)
        written += values
    assert clients.java_consume(jvm, node.address, len(written)) == written
    assert clients.java_consume(jvm, node.address, 5, start="245") == written[245:]
    assert consume(node.address, len(written)) == written


def test_kafka_get_offsets_finds_ends_and_timestamps(node: NodeProcess, jvm: Driver) -> None:
    producer = Producer({"bootstrap.servers": node.address})
    for timestamp in (1000, 3000, 2000):
        producer.produce("demo", b"x", timestamp=timestamp)
        producer.flush(LIMIT_S)

    def offset_at(time: str) -> str:
        return clients.java_offset(jvm, node.address, time)

    assert [offset_at("-1"), offset_at("-2"), offset_at("-3")] == [
        "demo:0:3",
        "demo:0:0",
        "demo:0:1",
    ]
    assert [offset_at("1001"), offset_at("3000"), offset_at("1")] == [
        "demo:0:1",
        "demo:0:1",
        "demo:0:0",
    ]


def test_kafkas_performance_tools_work(node: NodeProcess, jvm: Driver) -> None:
    shown = jvm.tool(
        clients.KAFKA_TOOLS + "ProducerPerformance",
        *("--bootstrap-server", node.address, "--topic", "demo", "--throughput", "-1"),
        *("--num-records", "5000", "--record-size", "500"),
        *("--command-property", "enable.idempotence=false", "acks=all"),
    ).ok()
    assert "5000 records sent" in shown.stdout
    assert len(consume(node.address, 5000)) == 5000


def test_an_idempotent_producer_writes_once_although_the_node_is_killed(
    tmp_path: Path,
) -> None:
    """A batch that is retried after a lost response is written once and in order."""
    data, errors = str(tmp_path / "data"), str(tmp_path / "errors.txt")
    values = [b"value %d" % n for n in range(20_000)]
    outcomes: list[object] = []
    node = NodeProcess(data, errors=errors)
    try:
        settings = {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 100}
        producer = Producer({"bootstrap.servers": node.address, **settings})
        for value in values:
            producer.produce("demo", value, on_delivery=lambda error, _: outcomes.append(error))
        while len(outcomes) < 2_000:
            producer.poll(LIMIT_S)
        node.kill()
        node = NodeProcess(data, "--port", str(node.port), errors=errors)
        assert producer.flush(LIMIT_S) == 0
        assert outcomes == [None] * len(values)
        assert consume(node.address, len(values)) == values
        assert clients.end_offset(node.address) == len(values)
        assert node.stop() == 0
    finally:
        node.kill_if_running()


def test_acknowledged_records_survive_kill_9(tmp_path: Path) -> None:
    data, errors = str(tmp_path / "data"), str(tmp_path / "errors.txt")
    values = [b"value %d" % n for n in range(3000)]
    first = NodeProcess(data, errors=errors)
    try:
        produce_all(first.address, values)
    finally:
        first.kill()
    second = NodeProcess(data, errors=errors)
    try:
        assert consume(second.address, len(values)) == values
        assert second.stop() == 0
    finally:
        second.kill_if_running()

"""Clients that nobody here wrote, against a node that runs as users run it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 60


def produce_all(address: str, values: list[bytes], **settings: Any) -> None:
    failures: list[Any] = []

    def told(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": address, **settings})
    for value in values:
        producer.produce("demo", value, on_delivery=told)
    assert producer.flush(LIMIT_S) == 0
    assert failures == []


def consume(address: str, count: int) -> list[bytes]:
    """The first `count` values; their offsets must have no gap."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("demo", 0, 0)])
    found: list[bytes] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count - len(found), LIMIT_S)
            assert messages, f"{len(found)} of {count} came"
            for message in messages:
                assert message.error() is None, message.error()
                assert message.offset() == len(found)
                found.append(message.value() or b"")
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_confluent_kafka_reads_what_it_wrote(node: NodeProcess, acks: str) -> None:
    values = [b"value %d" % n for n in range(5000)]
    produce_all(node.address, values, acks=acks)
    assert consume(node.address, len(values)) == values
    assert node.stop() == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_pass_through(node: NodeProcess, codec: str) -> None:
    values = [b"the same again and again %d" % n for n in range(2000)]
    produce_all(node.address, values, **{"compression.type": codec, "linger.ms": 50})
    assert consume(node.address, len(values)) == values


def test_large_messages_go_through_buffers_of_their_own(node: NodeProcess) -> None:
    values = [bytes([n]) * 900_000 for n in range(20)]
    produce_all(node.address, values)
    assert consume(node.address, len(values)) == values


def test_kcat_lists_writes_and_reads(node: NodeProcess, kcat: str) -> None:
    def run(*words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            [kcat, "-b", node.address, *words],
            input=stdin,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    assert 'topic "demo" with 1 partitions' in run("-L")
    run("-P", "-t", "demo", stdin=b"one\ntwo\nthree\n")
    assert run("-C", "-t", "demo", "-e", "-q") == "one\ntwo\nthree\n"
    assert run("-C", "-t", "demo", "-o", "1", "-e", "-q", "-f", "%o %s\n") == "1 two\n2 three\n"


def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
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
        if second.process.poll() is None:
            second.kill()

"""A node is killed while it compacts a topic under load, and continues after a restart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraftlog.client.deadline import Deadline
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

KEYS = 20
BATCH = 200
SETTINGS = ("--override", "log.cleaner.backoff.ms=20")
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
}


class Writer:
    """Writes values to keys in rotation, and keeps the last acknowledged one of each."""

    def __init__(self) -> None:
        self.latest: dict[bytes, int] = {}
        self.written = 0

    def write(self, address: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
        for _ in range(count // BATCH):
            for _ in range(BATCH):
                key = b"key-%d" % (self.written % KEYS)
                producer.produce("kept", b"%d" % self.written * 10, key)
                self.latest[key] = self.written
                self.written += 1
            assert producer.flush(LIMIT_S) == 0


def read(address: str) -> tuple[dict[bytes, bytes], int]:
    """The last value of each key, and the number of records, as a consumer reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("kept", 0, 0)])
    latest: dict[bytes, bytes] = {}
    count = 0
    try:
        while True:
            message = consumer.poll(LIMIT_S)
            assert message is not None
            if message.error():
                return latest, count
            latest[message.key() or b""] = message.value() or b""
            count += 1
    finally:
        consumer.close()


def first_segment_bytes(data: Path) -> int | None:
    """The size of the first segment; None while compaction replaces it."""
    try:
        return os.stat(data / "kept-0" / f"{0:020d}.log").st_size
    except FileNotFoundError:
        return None


def wait_until_compacted(data: Path) -> None:
    """Wait until compaction has made the first segment small."""
    deadline = Deadline(LIMIT_S)
    while not deadline.is_over:
        size = first_segment_bytes(data)
        if size is not None and size < 10_000:
            return
        deadline.pause(0.05)
    raise AssertionError(f"the first segment still has {first_segment_bytes(data)} bytes")


def test_a_compacted_topic_survives_a_kill_during_compaction(tmp_path: Path) -> None:
    data, writer = tmp_path / "data", Writer()
    node = None
    try:
        for start in range(3):
            node = NodeProcess(str(data), *SETTINGS, errors=str(tmp_path / "errors.txt"), topics={})
            if start == 0:
                topic = NewTopic("kept", 1, 1, config=TOPIC_SETTINGS)
                admin = AdminClient({"bootstrap.servers": node.address})
                admin.create_topics([topic])["kept"].result(LIMIT_S)
            writer.write(node.address, 3000)
            if start < 2:
                node.kill()
        assert node is not None
        wait_until_compacted(data)
        latest, count = read(node.address)
        assert latest == {key: b"%d" % value * 10 for key, value in writer.latest.items()}
        assert count < writer.written
        assert node.stop() == 0
        assert (data / "cleaner-offset-checkpoint").read_text().startswith("0\n")
        assert not [name for name in os.listdir(data / "kept-0") if name.endswith(".cleaned")]
    finally:
        if node is not None:
            node.kill_if_running()

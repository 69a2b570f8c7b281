"""A replicated cluster of real processes, and a writer that records acknowledgements."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Producer

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from tests.server.clients import TOPIC
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NODES = (1, 2, 3)
PARTITIONS = 3
#: A silent broker is fenced soon.
SETTINGS = (
    "broker.session.timeout.ms=2000",
    "broker.heartbeat.interval.ms=300",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=3",
)
#: Number of acknowledgements to wait for between faults.
ACKNOWLEDGEMENTS = 50
#: The pause between two records, so that the load is moderate.
PAUSE_S = 0.005


def replicated_cluster(folder: Path, *settings: str) -> Iterator[LocalCluster]:
    """Yield three nodes with the topic, and kill them afterwards; fixtures yield from this."""
    options = [word for setting in (*SETTINGS, *settings) for word in ("--override", setting)]
    started = LocalCluster(folder, *options)
    try:
        with Client(started.servers, timeout_s=LIMIT_S) as client:
            client.create_topic(TOPIC, PARTITIONS)
        yield started
    finally:
        started.end()


def until(is_done: Callable[[], Any], expected: str) -> None:
    """Wait until `is_done`; fail with the text `expected` when the time is over."""
    deadline = Deadline(LIMIT_S)
    while not is_done():
        assert not deadline.is_over, expected
        deadline.pause(0.02)


def await_isr(cluster: LocalCluster, *nodes: int) -> None:
    """Wait until these nodes are in sync for every partition, and no others."""
    servers = ",".join([cluster.rows[node][2] for node in nodes])
    with Client(servers, timeout_s=LIMIT_S) as client:
        until(
            lambda: all(
                set(each.isr) == set(nodes) for each in client.describe_topic(TOPIC).partitions
            ),
            f"the ISR is not {nodes}",
        )


class Writer:
    """A thread that writes numbers to all partitions in turn, until it is stopped."""

    def __init__(self, write: Callable[[Writer], None]) -> None:
        #: Partition and offset of each acknowledged number.
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[Any] = []
        self.is_stopping = threading.Event()
        self._thread = threading.Thread(target=write, args=(self,))
        self._thread.start()

    def await_more(self, count: int = ACKNOWLEDGEMENTS) -> None:
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted or self.failures, "acknowledgements")
        assert self.failures == []

    def stop(self) -> None:
        self.is_stopping.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


def write_with_confluent(servers: str, padding_bytes: int = 0) -> Callable[[Writer], None]:
    headers: dict[str, Any] = {"padding": bytes(padding_bytes)} if padding_bytes else {}

    def write(writer: Writer) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                writer.failures.append(error)
                return
            number = int(message.value())
            writer.acknowledged[number] = message.partition(), message.offset()

        settings = {"acks": "all", "enable.idempotence": True, "reconnect.backoff.max.ms": 100}
        # The client gives up a request to a paused node after 3 s instead of a minute.
        settings["socket.timeout.ms"] = 3000
        # With several requests in flight, one that is refused as out of order makes librdkafka
        # begin a new producer epoch, and repeat in it batches that a former leader may have
        # replicated.
        settings["max.in.flight.requests.per.connection"] = 1
        producer = Producer({"bootstrap.servers": servers, "log_level": 2, **settings})
        number = 0
        while not writer.is_stopping.is_set():
            value, partition = b"%d" % number, number % PARTITIONS
            producer.produce(TOPIC, value, None, partition, on_delivery, headers=headers)
            number += 1
            producer.poll(PAUSE_S)
        assert producer.flush(LIMIT_S) == 0

    return write


@contextmanager
def writing(cluster: HasServers, write: Callable[[Writer], None]) -> Iterator[Writer]:
    """Write until the end of the block, then check the acknowledged records."""
    writer = Writer(write)
    try:
        yield writer
    finally:
        writer.stop()
    assert writer.failures == []
    expect_acknowledged(cluster, writer)


class HasServers(Protocol):
    """A cluster, with the addresses of its brokers."""

    @property
    def servers(self) -> str: ...


def expect_acknowledged(cluster: HasServers, writer: Writer) -> None:
    """Check that acknowledged numbers are at their offsets, once each and in order."""
    found: dict[int, tuple[int, int]] = {}
    last = dict.fromkeys(range(PARTITIONS), -1)
    with (
        Client(cluster.servers, timeout_s=LIMIT_S) as client,
        client.consume(TOPIC, "beginning", until_end=True) as records,
    ):
        for record in records:
            number = int(record.value or b"")
            assert number not in found, f"{number} is duplicated"
            assert number > last[record.partition], f"{number} after {last[record.partition]}"
            found[number] = record.partition, record.offset
            last[record.partition] = number
    assert writer.acknowledged.items() <= found.items()

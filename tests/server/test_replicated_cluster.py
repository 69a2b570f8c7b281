"""A replicated cluster of real processes, killed and paused under third-party clients."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.init_producer_id import InitProducerIdRequest
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.interop.kafka_jars import kafka_libs
from tests.server import raw
from tests.server.clients import KAFKA_TOOLS, TOPIC
from tests.server.local_cluster import LocalCluster
from tests.server.replication_load import (
    ACKNOWLEDGEMENTS,
    NODES,
    PARTITIONS,
    SETTINGS,
    Writer,
    await_isr,
    replicated_cluster,
    until,
    write_with_confluent,
    writing,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

GROUP = "readers"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    yield from replicated_cluster(tmp_path)


def write_with_kafka_python(servers: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        command = [sys.executable, "-m", "tests.server.kafka_python_writer"]
        with subprocess.Popen(
            [*command, servers, TOPIC, str(PARTITIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in process.stdout:
                number, partition, offset = map(int, line.split())
                writer.acknowledged[number] = partition, offset
                if writer.is_stopping.is_set():
                    process.stdin.close()
        if process.returncode:
            writer.failures.append(process.returncode)

    return write


def kill_each(
    cluster: LocalCluster,
    writer: Writer,
    while_stopped: Callable[[], None] = lambda: None,
    signum: int = signal.SIGKILL,
) -> None:
    """Stop each node in turn with a signal and restart it, while the writer goes on."""
    for node in NODES:
        writer.await_more()
        cluster.kill(node, signum)
        writer.await_more()
        while_stopped()
        cluster.restart(node)
        await_isr(cluster, *NODES)


def test_v7_acknowledged_records_survive_kills_and_pauses_of_every_node(
    cluster: LocalCluster,
) -> None:
    """V1, V8, V9, V16, C245: each node is killed and restarted, then paused beyond its session."""
    with writing(cluster, write_with_confluent(cluster.servers)) as writer:
        kill_each(cluster, writer)
        for node in NODES:
            others = [each for each in NODES if each != node]
            cluster.pause(node)
            await_isr(cluster, *others)
            writer.await_more()
            cluster.resume(node)
            await_isr(cluster, *NODES)
            writer.await_more()


def test_v3_acknowledged_records_survive_clean_restarts(cluster: LocalCluster) -> None:
    """V3, C246: each node shuts down cleanly and restarts, also the active controller."""
    with writing(cluster, write_with_confluent(cluster.servers)) as writer:
        kill_each(cluster, writer, signum=signal.SIGTERM)


@pytest.mark.parametrize(
    ("nodes", "signum"),
    [(NODES, signal.SIGKILL), (NODES[:2], signal.SIGKILL), (NODES, signal.SIGTERM)],
    ids=["all are killed", "two are killed", "all stop cleanly"],
)
def test_v7_acknowledged_records_survive_ends_of_several_nodes(
    cluster: LocalCluster, nodes: tuple[int, ...], signum: int
) -> None:
    """V14, C245, C246: they end at the same time, so the nodes that are left are no majority."""
    with writing(cluster, write_with_confluent(cluster.servers)) as writer:
        writer.await_more()
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: cluster.kill(node, signum), nodes))
            list(pool.map(cluster.restart, nodes))
        await_isr(cluster, *NODES)
        writer.await_more()


def active_controller(cluster: LocalCluster) -> int:
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        return client.describe_quorum().leader_id


def test_v10_a_reassignment_survives_the_active_controller(cluster: LocalCluster) -> None:
    """V10, V14, C233: it begins while its target is down, and ends under the next controller."""
    moving = "moving"
    first = active_controller(cluster)
    target, other = [node for node in NODES if node != first]
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        client.create_topic(moving, assignment={0: [first, other]})
        with client.producer() as producer:
            for number in range(ACKNOWLEDGEMENTS):
                producer.send(moving, b"%d" % number)
        cluster.kill(target)
        assert client.reassign_partitions({(moving, 0): [target, other]}) == {}
        assert {*client.reassignments()} == {(moving, 0)}
    cluster.kill(first)
    cluster.restart(target)
    cluster.restart(first)
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        until(lambda: not client.reassignments(), "the reassignment is over")
        partition = client.describe_topic(moving).partitions[0]
        assert partition.replicas == (target, other)
        assert {*partition.isr} == {target, other}
        until(lambda: client.describe_topic(moving).partitions[0].leader >= 0, "a leader")
        with client.consume(moving, "beginning", until_end=True) as records:
            assert [int(record.value or b"") for record in records] == [*range(ACKNOWLEDGEMENTS)]


@pytest.mark.long
def test_v7_acknowledged_records_of_kafka_python_survive_kills(cluster: LocalCluster) -> None:
    with writing(cluster, write_with_kafka_python(cluster.servers)) as writer:
        kill_each(cluster, writer)


def write_with_java(servers: str, folder: Path) -> Callable[[Writer], None]:
    """Kafka's own producer for fault tests; it retries for as long as the test may last."""
    settings = folder / "producer.properties"
    settings.write_text(
        "retries=2147483647\nrequest.timeout.ms=3000\nreconnect.backoff.max.ms=100\n"
        f"delivery.timeout.ms={LIMIT_S * 1000}\n"
    )
    options = ["--bootstrap-server", servers, "--topic", TOPIC, "--throughput", "200"]
    command = ["java", "-Xmx256m", "-cp", f"{kafka_libs()}/*", f"{KAFKA_TOOLS}VerifiableProducer"]

    def write(writer: Writer) -> None:
        with subprocess.Popen(
            [*command, *options, "--command-config", str(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                if event["name"] == "producer_send_success":
                    writer.acknowledged[int(event["value"])] = event["partition"], event["offset"]
                elif event["name"] == "producer_send_error":
                    writer.failures.append(event)
                if writer.is_stopping.is_set():
                    process.terminate()

    return write


def test_v7_acknowledged_records_of_kafkas_producer_survive_kills(
    cluster: LocalCluster,
    jvm: Driver,
    tmp_path: Path,
) -> None:
    with writing(cluster, write_with_java(cluster.servers, tmp_path)) as writer:
        kill_each(cluster, writer)


ROW = re.compile(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)")


def test_v2_kafkas_tool_shows_leaders_and_isr(cluster: LocalCluster, jvm: Driver) -> None:
    def described(*words: str) -> list[tuple[int, int, set[int], set[int]]]:
        options = ("--bootstrap-server", cluster.servers, "--topic", TOPIC)
        shown = jvm.tool(f"{KAFKA_TOOLS}TopicCommand", "--describe", *options, *words).ok().stdout
        rows = [row.groups() for row in ROW.finditer(shown)]
        return [
            (int(index), int(leader), {*map(int, replicas.split(","))}, {*map(int, isr.split(","))})
            for index, leader, replicas, isr in rows
        ]

    rows = described()
    assert [row[0] for row in rows] == [*range(PARTITIONS)]
    assert {row[1] for row in rows} == {*NODES}, "leaders are spread"
    assert all(row[2] == row[3] == {*NODES} for row in rows)
    assert described("--under-replicated-partitions") == []
    cluster.kill(2)
    await_isr(cluster, 1, 3)
    rows = described("--under-replicated-partitions")
    assert [row[0] for row in rows] == [*range(PARTITIONS)]
    assert all(row[1] in {1, 3} and row[3] == {1, 3} for row in rows)
    assert described("--unavailable-partitions") == []
    cluster.restart(2)
    await_isr(cluster, *NODES)
    assert described("--under-replicated-partitions") == []


def test_v7_a_group_and_its_offsets_survive_their_coordinator(cluster: LocalCluster) -> None:
    """The member continues with the next coordinator, and no committed offset is lost."""
    writer = Writer(write_with_confluent(cluster.servers))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 100,
            "log_level": 2,
        }
    )
    committed: dict[tuple[str, int], int] = {}

    def read_and_commit() -> None:
        deadline = Deadline(LIMIT_S)
        count = 0
        while count < ACKNOWLEDGEMENTS:
            assert not deadline.is_over
            count += len(
                [it for it in consumer.consume(ACKNOWLEDGEMENTS, 0.1) if it.error() is None]
            )
        for each in consumer.commit(asynchronous=False):
            assert each.error is None
            if each.offset >= 0:
                committed[each.topic, each.partition] = each.offset

    try:
        consumer.subscribe([TOPIC])
        writer.await_more()
        read_and_commit()
        for _ in range(2):
            with Client(cluster.servers, timeout_s=LIMIT_S) as client:
                coordinator = client.describe_group(GROUP).coordinator.id
            cluster.kill(coordinator)
            with Client(cluster.servers, timeout_s=LIMIT_S) as client:
                offsets = {name: each.offset for name, each in client.committed(GROUP).items()}
                assert offsets == committed
                assert client.describe_group(GROUP).coordinator.id != coordinator
            read_and_commit()
            cluster.restart(coordinator)
            await_isr(cluster, *NODES)
    finally:
        consumer.close()
        writer.stop()


def idempotent_batch(producer_id: int, sequence: int) -> bytes:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    builder.append(0, None, b"%d" % sequence)
    data = PartitionProduceData(index=0, records=builder.build())
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=LIMIT_S * 1000, topic_data=[topic])
    return raw.frame(sequence, ApiKey.PRODUCE, request)


def test_v6_the_next_leader_recognises_a_duplicate(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer whose response was lost with the leader sends its batch again."""
    monkeypatch.setitem(raw.VERSIONS, ApiKey.INIT_PRODUCER_ID, 4)

    def leader() -> int:
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            return client.describe_topic(TOPIC).partitions[0].leader

    first = leader()
    with raw.RawClient(cluster.port(first)) as client:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        client.send(raw.frame(1, ApiKey.INIT_PRODUCER_ID, request))
        producer_id = client.message(ApiKey.INIT_PRODUCER_ID).producer_id
        for sequence in (0, 1):
            client.send(idempotent_batch(producer_id, sequence))
            assert client.next_produce_response() == (sequence, ErrorCode.NONE, sequence)
    cluster.kill(first)
    until(lambda: leader() not in {first, -1}, "the next leader")
    with raw.RawClient(cluster.port(leader())) as client:
        for sequence in (1, 0, 2):
            client.send(idempotent_batch(producer_id, sequence))
            assert client.next_produce_response() == (sequence, ErrorCode.NONE, sequence)
    with Client(cluster.servers, timeout_s=LIMIT_S) as reader:
        assert reader.offsets(TOPIC)[0].offset == 3


def test_v7_a_consumer_reads_acknowledged_records_while_leaders_change(
    cluster: LocalCluster,
) -> None:
    """C248: the consumer reads each acknowledged record at its offset, none at two offsets."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.servers, "group.id": "none", "reconnect.backoff.max.ms": 100}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    writer = Writer(write_with_confluent(cluster.servers))
    read: dict[int, tuple[int, int]] = {}

    def read_acknowledged() -> None:
        acknowledged = dict(writer.acknowledged)
        deadline = Deadline(LIMIT_S)
        while not acknowledged.items() <= read.items():
            assert not deadline.is_over
            for message in consumer.consume(500, 0.05):
                if message.error() is None:
                    position: Any = message.partition(), message.offset()
                    assert read.setdefault(int(message.value() or b""), position) == position

    try:
        kill_each(cluster, writer, while_stopped=read_acknowledged)
    finally:
        writer.stop()
        consumer.close()
    assert writer.failures == []


def test_v7_a_consumer_reads_from_the_follower_in_its_rack(
    tmp_path: Path,
) -> None:
    """KIP-392: librdkafka fetches from the follower in its rack; from the leader once it dies."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    words = [word for setting in SETTINGS for word in ("--override", setting)]
    cluster = LocalCluster(tmp_path, *words, "--override", f"replica.selector.class={selector}")
    statistics: dict[str, Any] = {}
    try:
        for node in NODES:
            cluster.kill(node)
            with open(cluster.file(node), "a") as file:
                file.write(f"broker.rack=rack-{node}\n")
            cluster.restart(node)
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            client.create_topic(TOPIC, PARTITIONS)
            leader = client.describe_topic(TOPIC).partitions[0].leader
        nearest, other = [node for node in NODES if node != leader]
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.address(other),
                "group.id": "none",
                "client.rack": f"rack-{nearest}",
                "statistics.interval.ms": 20,
                "stats_cb": lambda text: statistics.update(
                    json.loads(text)["topics"][TOPIC]["partitions"]["0"]
                ),
                "reconnect.backoff.max.ms": 100,
                "log_level": 2,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        writer = Writer(write_with_confluent(cluster.servers))
        read: set[int] = set()

        def has_read_acknowledged() -> bool:
            messages = consumer.consume(500, 0.05)
            read.update([int(it.value() or b"") for it in messages if it.error() is None])
            acknowledged = dict(writer.acknowledged)
            return read >= {number for number, (index, _) in acknowledged.items() if index == 0}

        def reads_from(node: int) -> Callable[[], bool]:
            return lambda: has_read_acknowledged() and statistics.get("broker") == node

        try:
            writer.await_more()
            until(reads_from(nearest), "the follower in the rack is read from")
            assert statistics["leader"] == leader
            cluster.kill(nearest)
            writer.await_more()
            until(reads_from(leader), "the leader is read from once the follower is killed")
        finally:
            writer.stop()
            consumer.close()
    finally:
        cluster.end()

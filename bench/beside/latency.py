"""Latencies of single requests on idle brokers."""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.beside.figures import percentile
from bench.beside.machine import pinned, sync_p50_ms
from bench.beside.peers import TUNED, bare_node, kafka_node, kraftlog_node, running
from bench.beside.programs import load, probe
from bench.beside.rounds import in_turns, warm
from kraftlog import Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.beside.figures import Result
    from bench.beside.peers import Peer
    from bench.beside.plan import Plan
    from bench.beside.programs import ProbeResult

SEND_INTERVAL_S = 0.01
TOPIC = "latency"


def latency(plan: Plan, folder: str, result: Result) -> None:
    disk = sync_p50_ms(folder)
    result.notes.append(f"The disk alone, 200 B and fdatasync, p50: {disk:.2f} ms.")
    ours = kraftlog_node(folder)
    bare = bare_node(folder)
    with running(ours, bare):
        with running(kafka_node(folder)) as [kafka]:
            peers = (kafka, ours)
            warm(peers, plan)
            prepare(peers)
            frame_client.create_topic(bare.port, TOPIC)
            synchronous((*peers, bare), plan, folder, result)
            end_to_end((*peers, bare), plan, result)
            administration("latency", peers, plan, folder, result)
        with running(kafka_node(folder, TUNED)) as [tuned]:
            warm([tuned], plan)
            prepare([tuned])
            administration("tuned", (tuned, ours), plan, folder, result)


def prepare(peers: Sequence[Peer]) -> None:
    for peer in peers:
        frame_client.create_topic(peer.port, TOPIC)
        frame_client.produce_records(peer.port, TOPIC, 100)
        first_record_ms(peer.address, "before")  # creates __consumer_offsets


def synchronous(peers: Sequence[Peer], plan: Plan, folder: str, result: Result) -> None:
    """Measure also with client and broker on the same processor, and on different ones.

    Waking a sleeping processor takes as long as the rest of a request, and the scheduler's
    placement is random and lasts for minutes.
    """
    frames, error_position = (
        frame_client.produce_frame(TOPIC),
        frame_client.produce_error_position(TOPIC),
    )
    count = plan.count(2000, minimum=200)

    def one_by_one(peer: Peer) -> ProbeResult:
        probe(peer.port, frames, error_position, folder, connections=1, count=200)
        return probe(peer.port, frames, error_position, folder, connections=1, count=count)

    for peer in in_turns(peers, plan.rounds):
        probed = one_by_one(peer)
        result.add("latency.sync.p50", peer.name, probed.p50)
        result.add("latency.sync.p99", peer.name, probed.p99)
        for row, apart in (("together", False), ("apart", True)):
            with pinned(peer.pid, apart=apart):
                result.add(f"latency.{row}", peer.name, one_by_one(peer).p50)


def end_to_end(peers: Sequence[Peer], plan: Plan, result: Result) -> None:
    for number, peer in enumerate(in_turns(peers, plan.rounds)):
        topic = f"through-{number}"
        frame_client.create_topic(peer.port, topic)
        times = end_to_end_ms(peer.port, topic, plan.count(400, minimum=50))
        result.add("latency.through.p50", peer.name, percentile(times, 50))
        result.add("latency.through.p99", peer.name, percentile(times, 99))


def end_to_end_ms(port: int, topic: str, count: int, acks: int = 1) -> list[float]:
    """Milliseconds from sending a record until a waiting consumer has it; the topic must be new."""
    request = frame_client.produce_request(topic, 100, acks)
    times = []
    with (
        closing(frame_client.connect(port)) as producer,
        closing(frame_client.connect(port)) as consumer,
    ):
        due = time.perf_counter()
        for offset in range(count):
            consumer.send(frame_client.fetch_request(topic, offset), frame_client.deadline())
            due += SEND_INTERVAL_S
            time.sleep(max(0.0, due - time.perf_counter()))
            start = time.perf_counter()
            producer.send(request, frame_client.deadline())
            consumer.receive(frame_client.deadline())
            times.append((time.perf_counter() - start) * 1000)
            producer.receive(frame_client.deadline())
    return times[count // 10 :]  # without the first tenth, which warms up


def administration(
    section: str, peers: Sequence[Peer], plan: Plan, folder: str, result: Result
) -> None:
    """Measure a new group, new topics and small metadata changes."""
    frames, error_position = (
        frame_client.change_frames(TOPIC),
        frame_client.change_error_position(TOPIC),
    )
    for number, peer in enumerate(in_turns(peers, plan.rounds)):
        name = f"{section}-{number}"
        count, seconds = load("first", peer.address, TOPIC, f"{name}-librdkafka")
        if not count:
            result.notes.append(f"**{peer.name}: a new group of librdkafka got no record.**")
        result.add(f"{section}.group.librdkafka", peer.name, seconds * 1000)
        result.add(f"{section}.group", peer.name, first_record_ms(peer.address, name))
        times = creation_times_ms(peer.port, name, plan.count(30, minimum=5))
        result.add(f"{section}.create", peer.name, median(times))
        count = plan.count(100, minimum=20)
        probed = probe(peer.port, frames, error_position, folder, connections=1, count=count)
        result.add(f"{section}.commit", peer.name, probed.p50)


def first_record_ms(address: str, group: str) -> float:
    """Milliseconds from creating a client to the first record in a new group."""
    start = time.perf_counter()
    with Client(address) as client, client.consume(TOPIC, "beginning", group=group) as consumer:
        next(consumer)
        return (time.perf_counter() - start) * 1000


def creation_times_ms(port: int, prefix: str, count: int) -> list[float]:
    """Milliseconds of each topic creation."""
    times = []
    with closing(frame_client.connect(port)) as connection:
        for number in range(count):
            start = time.perf_counter()
            code = frame_client.try_to_create(connection, f"{prefix}-{number}")
            times.append((time.perf_counter() - start) * 1000)
            assert code == 0, f"a topic can't be created: error {code}"
    return times

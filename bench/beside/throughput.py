"""Records per second to and from one partition, and the CPU time of broker and client."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.beside.figures import parse_perf_test
from bench.beside.frame_client import make_topic
from bench.beside.machine import cpu_seconds, ended_cpu_seconds
from bench.beside.peers import bare_node, java, kafka_node, kraftlog_node, running
from bench.beside.programs import load, output
from bench.beside.recycled import recycled_memory
from bench.beside.rounds import BATCHED, GREEDY, UNBATCHED, in_turns, warm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.beside.figures import Result
    from bench.beside.peers import Peer
    from bench.beside.plan import Plan

    #: Sends or reads a number of records; returns the number counted, and the seconds.
    Once = Callable[[Peer, "Load", int], tuple[int, float]]

KIB = 1024


@dataclass(frozen=True)
class Load:
    """A number of records of a size, produced with these settings of librdkafka."""

    name: str
    size: int
    count: int
    settings: tuple[str, ...] = BATCHED
    most_rounds: int = 100


ONE_BY_ONE = Load("unbatched", 100, 60_000, UNBATCHED)
PRODUCED = (
    Load("100B", 100, 2_000_000, ("acks=1", *BATCHED)),
    Load("1KiB", KIB, 500_000, ("acks=1", *BATCHED)),
    Load("100KiB", 100 * KIB, 5_000, ("acks=1", *BATCHED)),
    Load("idempotent", 100, 2_000_000, ("enable.idempotence=true", "acks=all", *BATCHED)),
    Load("defaults", 100, 2_000_000, ("acks=all",)),
    ONE_BY_ONE,
)
#: Kafka's own client, with the start of its JVM: more records, fewer rounds.
BY_JAVA = Load("java", 100, 1_500_000, most_rounds=3)
CONSUMED = (
    Load("100B", 100, 3_000_000),
    Load("1KiB", KIB, 1_000_000),
    Load("100KiB", 100 * KIB, 10_000),
)


def produce(plan: Plan, folder: str, result: Result) -> None:
    with ExitStack() as ends:
        refill = ends.enter_context(recycled_memory(folder)) if plan.with_recycling else None
        peers = ends.enter_context(running(*three(folder)))
        warm(peers, plan)

        def by_java(peer: Peer, each: Load, count: int) -> tuple[int, float]:
            return produced_by_java(folder, peer, each, count)

        for each in (*PRODUCED, BY_JAVA):
            for peer in peers:
                make_topic(peer.port, f"produce.{each.name}")
            if each is not BY_JAVA:  # each run of which starts a new JVM
                rehearsed(peers, each, plan, produced, seconds=0)
            if refill:
                refill()
            repeated("produce", peers, each, plan, result, by_java if each is BY_JAVA else produced)
    # per request, as a request has one small record
    for cost in ("cpu", "clients"):
        for figures in result.figures[f"produce.unbatched.{cost}"].values():
            figures[:] = [cpu_s_a_gb * ONE_BY_ONE.size / 1000 for cpu_s_a_gb in figures]


def consume(plan: Plan, folder: str, result: Result) -> None:
    with running(*three(folder)) as peers:
        warm(peers, plan)
        for each in CONSUMED:
            for peer in peers:
                topic = f"consume.{each.name}"
                make_topic(peer.port, topic)
                produced(peer, each, count_of(each, plan), topic)
            rehearsed(peers, each, plan, consumed, plan.warm_s / 3)
            repeated("consume", peers, each, plan, result, consumed)


def three(folder: str) -> tuple[Peer, ...]:
    return kafka_node(folder), kraftlog_node(folder), bare_node(folder)


def count_of(each: Load, plan: Plan) -> int:
    return plan.count(each.count, least=1000 if each.size < 10_000 else 100)


def rehearsed(peers: Sequence[Peer], each: Load, plan: Plan, once: Once, seconds: float) -> None:
    """Run a load unmeasured for some seconds, at least once, so that a JVM compiles its code."""
    for peer in peers:
        end = time.perf_counter() + seconds
        once(peer, each, count_of(each, plan))
        while time.perf_counter() < end:
            once(peer, each, count_of(each, plan))


def repeated(
    case: str, peers: Sequence[Peer], each: Load, plan: Plan, result: Result, once: Once
) -> None:
    """Measure the rate, and the CPU seconds per GB of broker and client, in alternating rounds."""
    row = f"{case}.{each.name}"
    count = count_of(each, plan)
    size_gb = count * each.size / 1e9
    for peer in in_turns(peers, min(plan.rounds, each.most_rounds)):
        brokers, clients = cpu_seconds(peer.pid), ended_cpu_seconds()
        records, seconds = once(peer, each, count)
        result.add(f"{row}.rate", peer.name, records / seconds)
        result.add(f"{row}.cpu", peer.name, (cpu_seconds(peer.pid) - brokers) / size_gb)
        result.add(f"{row}.clients", peer.name, (ended_cpu_seconds() - clients) / size_gb)


def produced(peer: Peer, each: Load, count: int, topic: str = "") -> tuple[int, float]:
    topic = topic or f"produce.{each.name}"
    return load("produce", peer.address, topic, count, each.size, *each.settings)


def consumed(peer: Peer, each: Load, count: int) -> tuple[int, float]:
    return load("consume", peer.address, f"consume.{each.name}", count, *GREEDY)


def produced_by_java(folder: str, peer: Peer, each: Load, count: int) -> tuple[int, float]:
    numbers = ["--num-records", str(count), "--record-size", str(each.size), "--throughput", "-1"]
    where = ["--bootstrap-server", peer.address, "--topic", f"produce.{each.name}"]
    main = "org.apache.kafka.tools.ProducerPerformance"
    return parse_perf_test(output(java(folder, main, *where, *numbers)))

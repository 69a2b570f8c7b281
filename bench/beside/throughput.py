"""Records per second to and from one partition, and the CPU time of broker and client."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.beside.figures import parse_perf_test
from bench.beside.frame_client import create_topic
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
    RunLoad = Callable[[Peer, "Load", int], tuple[int, float]]

KIB = 1024


@dataclass(frozen=True)
class Load:
    """A number of records of a size, produced with these settings of librdkafka."""

    name: str
    size: int
    count: int
    settings: tuple[str, ...] = BATCHED
    max_rounds: int = 100


UNBATCHED_LOAD = Load("unbatched", 100, 60_000, UNBATCHED)
PRODUCE_LOADS = (
    Load("100B", 100, 2_000_000, ("acks=1", *BATCHED)),
    Load("1KiB", KIB, 500_000, ("acks=1", *BATCHED)),
    Load("100KiB", 100 * KIB, 5_000, ("acks=1", *BATCHED)),
    Load("idempotent", 100, 2_000_000, ("enable.idempotence=true", "acks=all", *BATCHED)),
    Load("defaults", 100, 2_000_000, ("acks=all",)),
    UNBATCHED_LOAD,
)
#: Kafka's own client, with the start of its JVM: more records, fewer rounds.
JAVA_LOAD = Load("java", 100, 1_500_000, max_rounds=3)
CONSUME_LOADS = (
    Load("100B", 100, 3_000_000),
    Load("1KiB", KIB, 1_000_000),
    Load("100KiB", 100 * KIB, 10_000),
)


def produce(plan: Plan, folder: str, result: Result) -> None:
    with ExitStack() as stack:
        refill = stack.enter_context(recycled_memory(folder)) if plan.with_recycling else None
        peers = stack.enter_context(running(*all_nodes(folder)))
        warm(peers, plan)

        def run_java(peer: Peer, each: Load, count: int) -> tuple[int, float]:
            return produce_with_java(folder, peer, each, count)

        for each in (*PRODUCE_LOADS, JAVA_LOAD):
            for peer in peers:
                create_topic(peer.port, f"produce.{each.name}")
            if each is not JAVA_LOAD:  # each run of which starts a new JVM
                warm_up_load(peers, each, plan, produce_load, seconds=0)
            if refill:
                refill()
            measure_rounds(
                "produce",
                peers,
                each,
                plan,
                result,
                run_java if each is JAVA_LOAD else produce_load,
            )
    # per request, as a request has one small record
    for cost in ("cpu", "clients"):
        for figures in result.figures[f"produce.unbatched.{cost}"].values():
            figures[:] = [cpu_s_a_gb * UNBATCHED_LOAD.size / 1000 for cpu_s_a_gb in figures]


def consume(plan: Plan, folder: str, result: Result) -> None:
    with running(*all_nodes(folder)) as peers:
        warm(peers, plan)
        for each in CONSUME_LOADS:
            for peer in peers:
                topic = f"consume.{each.name}"
                create_topic(peer.port, topic)
                produce_load(peer, each, count_of(each, plan), topic)
            warm_up_load(peers, each, plan, consume_load, plan.warm_s / 3)
            measure_rounds("consume", peers, each, plan, result, consume_load)


def all_nodes(folder: str) -> tuple[Peer, ...]:
    return kafka_node(folder), kraftlog_node(folder), bare_node(folder)


def count_of(each: Load, plan: Plan) -> int:
    return plan.count(each.count, minimum=1000 if each.size < 10_000 else 100)


def warm_up_load(
    peers: Sequence[Peer], each: Load, plan: Plan, run_load: RunLoad, seconds: float
) -> None:
    """Run a load unmeasured for some seconds, at least once, for a JVM to compile its code."""
    for peer in peers:
        end = time.perf_counter() + seconds
        run_load(peer, each, count_of(each, plan))
        while time.perf_counter() < end:
            run_load(peer, each, count_of(each, plan))


def measure_rounds(
    case: str, peers: Sequence[Peer], each: Load, plan: Plan, result: Result, run_load: RunLoad
) -> None:
    """Measure the rate, and the CPU seconds per GB of broker and client, in alternating rounds."""
    row = f"{case}.{each.name}"
    count = count_of(each, plan)
    size_gb = count * each.size / 1e9
    for peer in in_turns(peers, min(plan.rounds, each.max_rounds)):
        brokers, clients = cpu_seconds(peer.pid), ended_cpu_seconds()
        records, seconds = run_load(peer, each, count)
        result.add(f"{row}.rate", peer.name, records / seconds)
        result.add(f"{row}.cpu", peer.name, (cpu_seconds(peer.pid) - brokers) / size_gb)
        result.add(f"{row}.clients", peer.name, (ended_cpu_seconds() - clients) / size_gb)


def produce_load(peer: Peer, each: Load, count: int, topic: str = "") -> tuple[int, float]:
    topic = topic or f"produce.{each.name}"
    return load("produce", peer.address, topic, count, each.size, *each.settings)


def consume_load(peer: Peer, each: Load, count: int) -> tuple[int, float]:
    return load("consume", peer.address, f"consume.{each.name}", count, *GREEDY)


def produce_with_java(folder: str, peer: Peer, each: Load, count: int) -> tuple[int, float]:
    numbers = ["--num-records", str(count), "--record-size", str(each.size), "--throughput", "-1"]
    where = ["--bootstrap-server", peer.address, "--topic", f"produce.{each.name}"]
    main = "org.apache.kafka.tools.ProducerPerformance"
    return parse_perf_test(output(java(folder, main, *where, *numbers)))

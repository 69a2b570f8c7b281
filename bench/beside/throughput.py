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
#: Kafka's own client, which starts a JVM in each round: fewer rounds.
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

        def run_java(peer: Peer, workload: Load, count: int) -> tuple[int, float]:
            return produce_with_java(folder, peer, workload, count)

        for workload in (*PRODUCE_LOADS, JAVA_LOAD):
            for peer in peers:
                create_topic(peer.port, f"produce.{workload.name}")
            if workload is not JAVA_LOAD:  # it starts a new JVM in each run
                warm_up_load(peers, workload, plan, produce_load, seconds=0)
            if refill:
                refill()
            measure_rounds(
                "produce",
                peers,
                workload,
                plan,
                result,
                run_java if workload is JAVA_LOAD else produce_load,
            )
    # per request, as a request has one small record
    for cost in ("cpu", "clients"):
        for figures in result.figures[f"produce.unbatched.{cost}"].values():
            figures[:] = [cpu_s_a_gb * UNBATCHED_LOAD.size / 1000 for cpu_s_a_gb in figures]


def consume(plan: Plan, folder: str, result: Result) -> None:
    with running(*all_nodes(folder)) as peers:
        warm(peers, plan)
        for workload in CONSUME_LOADS:
            for peer in peers:
                topic = f"consume.{workload.name}"
                create_topic(peer.port, topic)
                produce_load(peer, workload, count_of(workload, plan), topic)
            warm_up_load(peers, workload, plan, consume_load, plan.warm_s / 3)
            measure_rounds("consume", peers, workload, plan, result, consume_load)


def all_nodes(folder: str) -> tuple[Peer, ...]:
    return kafka_node(folder), kraftlog_node(folder), bare_node(folder)


def count_of(workload: Load, plan: Plan) -> int:
    return plan.count(workload.count, minimum=1000 if workload.size < 10_000 else 100)


def warm_up_load(
    peers: Sequence[Peer], workload: Load, plan: Plan, run_load: RunLoad, seconds: float
) -> None:
    """Run a load unmeasured for some seconds, at least once, for a JVM to compile its code."""
    for peer in peers:
        end = time.perf_counter() + seconds
        run_load(peer, workload, count_of(workload, plan))
        while time.perf_counter() < end:
            run_load(peer, workload, count_of(workload, plan))


def measure_rounds(
    case: str, peers: Sequence[Peer], workload: Load, plan: Plan, result: Result, run_load: RunLoad
) -> None:
    """Measure the rate, and the CPU seconds per GB of broker and client, in alternating rounds."""
    row = f"{case}.{workload.name}"
    count = count_of(workload, plan)
    size_gb = count * workload.size / 1e9
    for peer in in_turns(peers, min(plan.rounds, workload.max_rounds)):
        brokers, clients = cpu_seconds(peer.pid), ended_cpu_seconds()
        records, seconds = run_load(peer, workload, count)
        result.add(f"{row}.rate", peer.name, records / seconds)
        result.add(f"{row}.cpu", peer.name, (cpu_seconds(peer.pid) - brokers) / size_gb)
        result.add(f"{row}.clients", peer.name, (ended_cpu_seconds() - clients) / size_gb)


def produce_load(peer: Peer, workload: Load, count: int, topic: str = "") -> tuple[int, float]:
    topic = topic or f"produce.{workload.name}"
    return load("produce", peer.address, topic, count, workload.size, *workload.settings)


def consume_load(peer: Peer, workload: Load, count: int) -> tuple[int, float]:
    return load("consume", peer.address, f"consume.{workload.name}", count, *GREEDY)


def produce_with_java(folder: str, peer: Peer, workload: Load, count: int) -> tuple[int, float]:
    numbers = [
        "--num-records",
        str(count),
        "--record-size",
        str(workload.size),
        "--throughput",
        "-1",
    ]
    where = ["--bootstrap-server", peer.address, "--topic", f"produce.{workload.name}"]
    main = "org.apache.kafka.tools.ProducerPerformance"
    return parse_perf_test(output(java(folder, main, *where, *numbers)))

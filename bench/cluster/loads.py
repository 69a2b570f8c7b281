"""Replicated produce, and consuming from several leaders or from the nearest follower."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from bench.beside.programs import load, load_from_brokers
from bench.beside.recycled import recycled_memory
from bench.beside.rounds import BATCHED, GREEDY
from bench.beside.throughput import KIB, Load
from bench.cluster.latency import creation_times_ms, produce_one_by_one
from bench.cluster.nodes import IDS, rack_of

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster

ACKS_ALL = ("acks=all", *BATCHED)
LOADS = (
    Load("100B", 100, 1_500_000, ACKS_ALL),
    Load("1KiB", KIB, 200_000, ACKS_ALL),
    Load("100KiB", 100 * KIB, 2_000, ACKS_ALL),
)
CONSUMED = Load("1KiB", KIB, 600_000, ACKS_ALL)


def written_bytes(task: str, plan: Plan) -> int:
    """The bytes that a task writes to the disk for each peer, all replicas together."""
    one_replica = 0
    if task == "produce":
        one_replica = sum([plan.count(it.count) * it.size for it in LOADS]) * (1 + plan.rounds)
    elif task == "consume":
        one_replica = plan.count(CONSUMED.count) * CONSUMED.size * 2
    return one_replica * len(IDS)


def warm(cluster: Cluster, plan: Plan) -> None:
    """Run a mixture of loads, so that a JVM compiles its code."""
    end = time.perf_counter() + plan.warm_s
    if plan.warm_s:
        cluster.create_topic("warm")
    number = 0
    while time.perf_counter() < end:
        for workload in LOADS:
            load(
                "produce",
                cluster.address,
                "warm",
                workload.count // 20,
                workload.size,
                *workload.settings,
            )
        produce_one_by_one(cluster, "warm", 300)
        creation_times_ms(cluster, f"warm-{number}", 10)
        number += 1


def produce(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure the rate, and the CPU seconds per GB of all nodes."""
    # All peers use the same file: one file for each peer would take several times the space.
    shared = os.path.dirname(cluster.folder)
    held = recycled_memory(shared) if plan.with_recycling else nullcontext(lambda: None)
    with held as refill:
        for workload in LOADS:
            topic = f"produce.{workload.name}"
            count = plan.count(workload.count, minimum=200)
            cluster.create_topic(topic)
            load("produce", cluster.address, topic, count, workload.size, *workload.settings)
            refill()
            for _ in range(plan.rounds):
                os.sync()  # so that earlier data is not written out meanwhile
                measure_load(cluster, workload, topic, count, result)


def measure_load(cluster: Cluster, workload: Load, topic: str, count: int, result: Result) -> None:
    key, size_gb = f"cluster.produce.{workload.name}", count * workload.size / 1e9
    nodes = cluster.cpu_seconds()
    records, seconds = load(
        "produce", cluster.address, topic, count, workload.size, *workload.settings
    )
    rate = records / seconds
    result.add(
        f"{key}.rate", cluster.name, rate if workload.size < KIB else rate * workload.size / 1e6
    )
    result.add(f"{key}.cpu", cluster.name, (cluster.cpu_seconds() - nodes) / size_gb)


def consume(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Consume a topic with a leader on each node, and one from a follower in the client's rack."""
    count = plan.count(CONSUMED.count, minimum=3000)
    for name, partitions in (("leaders", len(IDS)), ("follower", 1)):
        topic = f"consume.{name}"
        cluster.create_topic(topic, partitions)
        load("produce", cluster.address, topic, count, CONSUMED.size, *CONSUMED.settings)
        settings, senders = [*GREEDY], set(IDS)
        if name == "follower":
            leader = cluster.leader_of(topic)
            senders = {
                max(node_id for node_id, node in cluster.nodes.items() if node is not leader)
            }
            settings.append(f"client.rack={rack_of(*senders)}")
        # once unmeasured, so that a JVM compiles its code
        load_from_brokers(cluster.address, topic, count, *settings)
        for _ in range(plan.rounds):
            nodes = cluster.cpu_seconds()
            records, seconds, brokers = load_from_brokers(cluster.address, topic, count, *settings)
            assert brokers == senders, f"{topic}: records came from {brokers}, not from {senders}"
            size_gb, key = count * CONSUMED.size / 1e9, f"cluster.consume.{name}"
            rate = records * CONSUMED.size / 1e6 / seconds
            result.add(f"{key}.rate", cluster.name, rate)
            result.add(f"{key}.cpu", cluster.name, (cluster.cpu_seconds() - nodes) / size_gb)

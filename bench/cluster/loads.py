"""Replicated produce, and the creation of topics."""

from __future__ import annotations

import os
import time
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.beside.figures import percentile
from bench.beside.machine import ended_cpu_seconds
from bench.beside.programs import load, probe
from bench.beside.recycled import recycled_memory
from bench.beside.rounds import BATCHED
from bench.beside.throughput import KIB, Load
from bench.cluster.nodes import IDS, creation_error

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.beside.programs import Probed
    from bench.cluster.nodes import Cluster

ALL = ("acks=all", *BATCHED)
LOADS = (
    Load("100B", 100, 1_500_000, ALL),
    Load("1KiB", KIB, 200_000, ALL),
    Load("100KiB", 100 * KIB, 2_000, ALL),
)


def warm(cluster: Cluster, plan: Plan) -> None:
    """Run a mixture of loads, so that a JVM compiles its code."""
    end = time.perf_counter() + plan.warm_s
    if plan.warm_s:
        cluster.make_topic("warm")
    number = 0
    while time.perf_counter() < end:
        for each in LOADS:
            load("produce", cluster.address, "warm", each.count // 20, each.size, *each.settings)
        produced_one_by_one(cluster, "warm", 300)
        creations(cluster, f"warm-{number}", 10)
        number += 1


def produce(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure the rate, and the CPU seconds per GB of all nodes and of the client."""
    held = recycled_memory(cluster.folder) if plan.with_recycling else nullcontext(lambda: None)
    with held as refill:
        for each in LOADS:
            topic = f"produce.{each.name}"
            count = plan.count(each.count, least=200)
            cluster.make_topic(topic)
            load("produce", cluster.address, topic, count, each.size, *each.settings)
            refill()
            for _ in range(plan.rounds):
                os.sync()  # so that earlier data is not written out meanwhile
                measured_load(cluster, each, topic, count, result)


def measured_load(cluster: Cluster, each: Load, topic: str, count: int, result: Result) -> None:
    key, size_gb = f"cluster.produce.{each.name}", count * each.size / 1e9
    nodes, clients = cluster.cpu_seconds(), ended_cpu_seconds()
    records, seconds = load("produce", cluster.address, topic, count, each.size, *each.settings)
    rate = records / seconds
    result.add(f"{key}.rate", cluster.name, rate if each.size < KIB else rate * each.size / 1e6)
    result.add(f"{key}.cpu", cluster.name, (cluster.cpu_seconds() - nodes) / size_gb)
    result.add(f"{key}.clients", cluster.name, (ended_cpu_seconds() - clients) / size_gb)


def sync(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure single requests on an otherwise idle cluster."""
    cluster.make_topic("sync")
    produced_one_by_one(cluster, "sync", 200)
    for _ in range(plan.rounds):
        probed = produced_one_by_one(cluster, "sync", plan.count(2000, least=100))
        result.add("cluster.sync.p50", cluster.name, probed.p50)
        result.add("cluster.sync.p99", cluster.name, probed.p99)


def produced_one_by_one(cluster: Cluster, topic: str, count: int) -> Probed:
    frames = frame_client.produce_frames(topic, acks=-1)
    error_at = frame_client.produce_error_at(topic)
    port = cluster.leader_of(topic).port
    return probe(port, frames, error_at, cluster.folder, width=1, count=count)


def create(cluster: Cluster, plan: Plan, result: Result) -> None:
    creations(cluster, "first", 5)
    times = creations(cluster, "made", plan.count(200, least=10))
    result.add("cluster.create.p50", cluster.name, percentile(times, 50))
    result.add("cluster.create.p99", cluster.name, percentile(times, 99))


def creations(cluster: Cluster, prefix: str, count: int) -> list[float]:
    """Milliseconds of each creation of a topic with one partition and three replicas."""
    times = []
    with closing(frame_client.connect(cluster.nodes[IDS[0]].port)) as connection:
        for number in range(count):
            start = time.perf_counter()
            code = creation_error(connection, f"{prefix}-{number}")
            times.append((time.perf_counter() - start) * 1000)
            assert code == 0, f"a topic can't be made: error {code}"
    return times

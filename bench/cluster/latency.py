"""Latencies of single messages and of topic creations on an otherwise idle cluster."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.beside.figures import percentile
from bench.beside.latency import end_to_end_ms
from bench.beside.programs import probe
from bench.cluster.nodes import try_to_create

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.beside.programs import ProbeResult
    from bench.cluster.nodes import Cluster


def latency(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure synchronous produce requests, and messages from a producer to a consumer."""
    cluster.create_topic("sync")
    produce_one_by_one(cluster, "sync", 200)
    for _ in range(plan.rounds):
        probed = produce_one_by_one(cluster, "sync", plan.count(2000, minimum=100))
        result.add("cluster.sync.p50", cluster.name, probed.p50)
        result.add("cluster.sync.p99", cluster.name, probed.p99)
    for number in range(plan.rounds):
        topic = f"through-{number}"
        cluster.create_topic(topic)
        port = cluster.leader_of(topic).port
        times = end_to_end_ms(port, topic, plan.count(400, minimum=50), acks=-1)
        result.add("cluster.through.p50", cluster.name, percentile(times, 50))
        result.add("cluster.through.p99", cluster.name, percentile(times, 99))


def produce_one_by_one(cluster: Cluster, topic: str, count: int) -> ProbeResult:
    frames = frame_client.produce_frame(topic, acks=-1)
    error_position = frame_client.produce_error_position(topic)
    port = cluster.leader_of(topic).port
    return probe(port, frames, error_position, cluster.folder, connections=1, count=count)


def create(cluster: Cluster, plan: Plan, result: Result) -> None:
    creation_times_ms(cluster, "first", 5)
    times = creation_times_ms(cluster, "created", plan.count(200, minimum=10))
    result.add("cluster.create.p50", cluster.name, percentile(times, 50))
    result.add("cluster.create.p99", cluster.name, percentile(times, 99))


def creation_times_ms(cluster: Cluster, prefix: str, count: int) -> list[float]:
    """Milliseconds of each creation of a topic with one partition and three replicas."""
    times = []
    with closing(frame_client.connect(cluster.first.port)) as connection:
        for number in range(count):
            start = time.perf_counter()
            code = try_to_create(connection, f"{prefix}-{number}")
            times.append((time.perf_counter() - start) * 1000)
            assert code == 0, f"a topic can't be created: error {code}"
    return times

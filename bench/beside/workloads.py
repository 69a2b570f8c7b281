"""The shapes of OpenMessaging's benchmark: the peak rate, then the latency at half of it."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.beside.frame_client import create_topic
from bench.beside.peers import kafka_node, kraftlog_node, running
from bench.beside.programs import load, pace
from bench.beside.rounds import BATCHED, in_turns, warm
from bench.beside.rows import PERCENTILES, WORKLOAD_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.beside.figures import Result
    from bench.beside.peers import Peer
    from bench.beside.plan import Plan

RECORDS, SIZE = 500_000, 1024
ROUNDS = 3
#: How long a round at the fixed rate takes.
PACED_S = 10
#: As OpenMessaging's driver for Kafka: small delays rather than large batches.
SETTINGS = ("acks=all", "linger.ms=1", "batch.size=131072", BATCHED[-1])


def workloads(plan: Plan, folder: str, result: Result) -> None:
    with running(kafka_node(folder), kraftlog_node(folder)) as peers:
        warm(peers, plan)
        for partitions in WORKLOAD_PARTITIONS:
            measure(peers, partitions, plan, result)


def measure(peers: Sequence[Peer], partitions: int, plan: Plan, result: Result) -> None:
    key, count = f"workload.{partitions}", plan.count(RECORDS)
    rounds = min(plan.rounds, ROUNDS)
    for peer in peers:
        create_topic(peer.port, key, partitions)
        load("produce", peer.address, key, count, SIZE, *SETTINGS)
    for peer in in_turns(peers, rounds):
        records, seconds = load("produce", peer.address, key, count, SIZE, *SETTINGS)
        result.add(f"{key}.peak", peer.name, records / seconds)
    rate = min([median(each) for each in result.figures[f"{key}.peak"].values()]) / 2
    result.notes.append(f"With {partitions} partitions, half of the lower peak: {rate:,.0f} a s.")
    for peer in in_turns(peers, rounds):
        paced = int(rate * PACED_S * plan.scale)
        reached, latencies_ms = pace(peer.address, key, paced, SIZE, rate, *SETTINGS)
        result.add(f"{key}.rate", peer.name, reached)
        for name, figure in zip(PERCENTILES, latencies_ms, strict=True):
            result.add(f"{key}.{name}", peer.name, figure)

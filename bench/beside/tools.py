"""Kafka's own tools for performance, against Kafka and kraftlog in turn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.beside.figures import parse_perf_test
from bench.beside.frame_client import create_topic
from bench.beside.peers import java, kafka_node, kraftlog_node, running
from bench.beside.programs import output
from bench.beside.rounds import in_turns

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.peers import Peer
    from bench.beside.plan import Plan

#: Each round starts three JVMs for each peer.
ROUNDS = 3
TOPIC, SMALL_TOPIC = "tools", "tools-small"
RECORDS, SIZE = 1_000_000, 1024
MESSAGES, MESSAGE_SIZE = 5_000, 100
TOOLS = "org.apache.kafka.tools"


def tools(plan: Plan, folder: str, result: Result) -> None:
    with running(kafka_node(folder), kraftlog_node(folder)) as peers:
        for peer in peers:
            for topic in (TOPIC, SMALL_TOPIC):
                create_topic(peer.port, topic)
            use_tools(peer, plan, folder)  # so that the broker's JVM compiles its code
        for peer in in_turns(peers, min(plan.rounds, ROUNDS)):
            for row, figure in use_tools(peer, plan, folder).items():
                result.add(f"tools.{row}", peer.name, figure)


def use_tools(peer: Peer, plan: Plan, folder: str) -> dict[str, float]:
    """Run each tool once; return the figures that it prints."""

    def run(tool: str, *arguments: object) -> str:
        return output(java(folder, f"{TOOLS}.{tool}", *map(str, arguments)))

    def where(topic: str, count: int) -> tuple[object, ...]:
        return ("--bootstrap-server", peer.address, "--topic", topic, "--num-records", count)

    large = where(TOPIC, plan.count(RECORDS))
    produced = run("ProducerPerformance", *large, "--record-size", SIZE, "--throughput", -1)
    records, seconds = parse_perf_test(produced)
    p50, p99 = latencies(produced)
    consumed = consumer_figures(run("ConsumerPerformance", *large))
    small = where(SMALL_TOPIC, plan.count(MESSAGES))
    acks = ("--producer-acks", "all")
    end_to_end = run("EndToEndLatency", *small, *acks, "--record-size", MESSAGE_SIZE)
    return {
        "produce.rate": records / seconds,
        "produce.p50": p50,
        "produce.p99": p99,
        "consume.rate": consumed["fetch.nMsg.sec"],
        "consume.rebalance": consumed["rebalance.time.ms"],
        "through": average_ms(end_to_end),
    }


def latencies(text: str) -> tuple[float, float]:
    """The last p50 and p99 that producer-perf-test prints, in whole milliseconds, at least 1."""
    found = re.findall(r"(\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th", text)
    if not found:
        raise ValueError(f"producer-perf-test gave no latencies: {text[-400:]!r}")
    p50, p99 = found[-1]
    return max(1.0, float(p50)), max(1.0, float(p99))


def consumer_figures(text: str) -> dict[str, float]:
    """The figures of consumer-perf-test by the names of its header."""
    header, figures = [line for line in text.splitlines() if line.count(",") > 5][-2:]
    names = [each.strip() for each in header.split(",")]
    cells = [each.strip() for each in figures.split(",")]
    times = ("start.time", "end.time")
    pairs = zip(names, cells, strict=True)
    return {name: float(cell) for name, cell in pairs if name not in times}


def average_ms(text: str) -> float:
    """The average that kafka-e2e-latency prints; its percentiles are whole milliseconds."""
    found = re.search(r"Avg latency: ([\d.]+) ms", text)
    if not found:
        raise ValueError(f"kafka-e2e-latency gave no average: {text[-400:]!r}")
    return float(found[1])

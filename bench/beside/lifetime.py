"""A broker's start, stop, idle cost, and memory under load."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from bench.beside.frame_client import create_topic, delete_topic, produce_records, wait_until_ready
from bench.beside.machine import cpu_seconds, rss_mb
from bench.beside.peers import kafka_node, kraftlog_node, running
from bench.beside.rounds import in_turns, run_mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.beside.figures import Result
    from bench.beside.peers import Peer
    from bench.beside.plan import Plan


def start(plan: Plan, folder: str, result: Result) -> None:
    peers = (kafka_node(folder), kraftlog_node(folder))
    starts_and_stops(peers, plan, result)
    with running(*peers):
        at_rest(peers, plan, result)
    result.notes.append(f"Rest: {plan.rest_s:g} s, {plan.settle_s:g} s after the start.")


def starts_and_stops(peers: Sequence[Peer], plan: Plan, result: Result) -> None:
    """From the command to the first response, and from SIGTERM to the exit."""
    with running(*peers):  # fills the page cache and writes bytecode
        for peer in peers:
            create_topic(peer.port, "kept")
            produce_records(peer.port, "kept", 100)
    for peer in in_turns(peers, plan.rounds):
        begin = time.perf_counter()
        with running(peer):
            result.add("start.metadata", peer.name, (time.perf_counter() - begin) * 1000)
            time.sleep(min(1, plan.settle_s))
            begin = time.perf_counter()
        result.add("start.stop", peer.name, (time.perf_counter() - begin) * 1000)


def at_rest(peers: Sequence[Peer], plan: Plan, result: Result) -> None:
    """Measure both at once, as both are idle."""
    time.sleep(plan.settle_s)
    before = [cpu_seconds(peer.pid) for peer in peers]
    time.sleep(plan.rest_s)
    for peer, spent in zip(peers, before, strict=True):
        used = cpu_seconds(peer.pid) - spent
        result.add("start.rest", peer.name, 100 * used / plan.rest_s)
        result.add("start.rss", peer.name, rss_mb(peer.pid))


def memory(plan: Plan, folder: str, result: Result) -> None:
    """Measure both at once under a mixture of loads, as their speed does not matter."""
    with running(kafka_node(folder), kraftlog_node(folder)) as peers:
        threads = [threading.Thread(target=keep_busy, args=(peer, plan, result)) for peer in peers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for peer in peers:
            wait_until_ready(peer.port)
    result.notes.append(f"Memory: after {plan.load_s:g} s of mixed load on both at once.")


def keep_busy(peer: Peer, plan: Plan, result: Result) -> None:
    """Create, fill, read and delete topics one after the other, to bound the disk usage."""
    end = time.perf_counter() + plan.load_s
    number = 0
    while time.perf_counter() < end:
        topic = f"load-{number}"
        create_topic(peer.port, topic)
        run_mixture(peer, topic, plan)
        delete_topic(peer.port, topic)
        number += 1
    result.add("memory.rss", peer.name, rss_mb(peer.pid))

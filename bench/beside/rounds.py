"""Rounds in which the peers alternate, and the load that warms them up."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from bench.beside.frame_client import create_topic
from bench.beside.programs import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    from bench.beside.peers import Peer
    from bench.beside.plan import Plan

    AnyPeer = TypeVar("AnyPeer", bound=Peer)

#: librdkafka with batches of up to 1 MB.
BATCHED = (
    "linger.ms=5",
    "batch.size=1000000",
    "batch.num.messages=10000",
    "queue.buffering.max.messages=500000",
)
#: One record per request, and a thousand requests in flight.
UNBATCHED = ("acks=1", "linger.ms=0", "batch.num.messages=1", "max.in.flight=1000")
#: A consumer that fetches far ahead of what it returns.
GREEDY = ("queued.min.messages=1000000",)


def in_turns(peers: Sequence[AnyPeer], rounds: int) -> Iterator[AnyPeer]:
    """Yield each peer once per round; each round starts with another peer."""
    for number in range(rounds):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            os.sync()  # so that the previous peer's data is not written out meanwhile
            yield peer


def warm(peers: Sequence[Peer], plan: Plan) -> None:
    """Run a mixture of loads on each peer, so that a JVM compiles its code."""
    for peer in peers:
        create_topic(peer.port, "warm")
        end = time.perf_counter() + plan.warm_s
        while time.perf_counter() < end:
            run_mixture(peer, "warm", plan)


def run_mixture(peer: Peer, topic: str, plan: Plan) -> None:
    """Run a small load of each kind."""
    count = plan.count(200_000)
    load("produce", peer.address, topic, count, 100, "acks=1", *BATCHED)
    load("produce", peer.address, topic, plan.count(20_000), 1024, "acks=all", *BATCHED)
    load("produce", peer.address, topic, plan.count(200), 102_400, "acks=1", *BATCHED)
    load("produce", peer.address, topic, plan.count(10_000), 100, *UNBATCHED)
    load("consume", peer.address, topic, count, *GREEDY)

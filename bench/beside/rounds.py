"""Rounds in which the peers take turns, and the load that warms them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from bench.beside.frame_client import make_topic
from bench.beside.programs import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.beside.peers import Peer
    from bench.beside.plan import Plan

#: A client that fills its requests: librdkafka with batches of up to 1 MB.
BATCHED = (
    "linger.ms=5",
    "batch.size=1000000",
    "batch.num.messages=10000",
    "queue.buffering.max.messages=500000",
)
#: One record a request, and a thousand requests on their way.
UNBATCHED = ("acks=1", "linger.ms=0", "batch.num.messages=1", "max.in.flight=1000")
GREEDY = ("queued.min.messages=1000000",)


def in_turns(peers: Sequence[Peer], rounds: int) -> Iterator[Peer]:
    """Each peer once a round; who begins changes, so that none is always second."""
    for number in range(rounds):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            os.sync()  # what the one before has written is not written out during this one
            yield peer


def warm(peers: Sequence[Peer], plan: Plan) -> None:
    """A mixture of loads on each: a JVM compiles what it has run often enough."""
    for peer in peers:
        make_topic(peer.port, "warm")
        end = time.perf_counter() + plan.warm_s
        while time.perf_counter() < end:
            mixture(peer, "warm", plan)


def mixture(peer: Peer, topic: str, plan: Plan) -> None:
    """A little of each kind of load."""
    count = plan.count(200_000)
    load("produce", peer.address, topic, count, 100, "acks=1", *BATCHED)
    load("produce", peer.address, topic, plan.count(20_000), 1024, "acks=all", *BATCHED)
    load("produce", peer.address, topic, plan.count(200), 102_400, "acks=1", *BATCHED)
    load("produce", peer.address, topic, plan.count(10_000), 100, *UNBATCHED)
    load("consume", peer.address, topic, count, *GREEDY)

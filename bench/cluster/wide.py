"""100,000 partitions of one replica: their creation, and the start of a node that has them."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.cluster.failures import at_rest
from bench.cluster.nodes import try_to_create, wait_until, wait_until_each
from kraftlog.client.deadline import Deadline
from kraftlog.wire.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster
    from kraftlog.client.connection import Connection

PARTITIONS, PER_TOPIC = 100_000, 1_000
#: Idle: at most this share of one core, for this long; and how long to wait for that.
IDLE_PERCENT, IDLE_FOR_S, IDLE_WITHIN_S = 5, 1, 240


def one_node(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure a node's clean stop and start with many partitions, and then the node at rest."""
    begin = time.perf_counter()
    topics = create_partitions(cluster, plan.count(PARTITIONS))
    result.add("cluster.node.created", cluster.name, time.perf_counter() - begin)
    wait_until_idle(cluster)
    node = cluster.first
    begin = time.perf_counter()
    node.stop(signal.SIGTERM)
    result.add("cluster.node.stop", cluster.name, time.perf_counter() - begin)
    begin = time.perf_counter()
    node.start()
    for topic in (topics[-1], topics[0]):
        wait_until_each(node.port, [topic], lambda it: it.leader_id > 0)
        wait_until(node.port, partial(accepts_produce, topic=topic))
    result.add("cluster.node.start", cluster.name, time.perf_counter() - begin)
    at_rest(cluster, plan, result, "node")


def accepts_produce(connection: Connection, topic: str) -> bool:
    """Whether a produce request is acknowledged."""
    response = connection.call(frame_client.produce_request(topic, 100), frame_client.deadline())
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code == 0


def create_partitions(cluster: Cluster, partitions: int, prefix: str = "wide") -> list[str]:
    """Create topics with this number of partitions in all; wait until every node has them."""
    topics: list[str] = []
    with closing(frame_client.connect(cluster.nodes[cluster.controller()].port)) as connection:
        while partitions > 0:
            topics.append(f"{prefix}-{len(topics)}")
            code = try_to_create(connection, topics[-1], min(PER_TOPIC, partitions), replicas=1)
            assert code == 0, f"{topics[-1]} can't be created: error {code}"
            partitions -= PER_TOPIC
    for node in cluster.nodes.values():
        wait_until_each(node.port, topics[-1:], lambda it: it.leader_id > 0)
    return topics


def wait_until_idle(cluster: Cluster) -> None:
    """Wait until all nodes use little CPU: they create the folders of new logs after responding."""
    end = Deadline(IDLE_WITHIN_S)
    while not end.is_over:
        before = cluster.cpu_seconds()
        time.sleep(IDLE_FOR_S)
        if cluster.cpu_seconds() - before < IDLE_FOR_S * IDLE_PERCENT / 100:
            return
    raise TimeoutError(f"{cluster.name} is still busy {IDLE_WITHIN_S} s after the last change")

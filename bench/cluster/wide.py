"""100,000 partitions of one replica: created in a cluster, or started with on one node."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.cluster.failures import at_rest
from bench.cluster.nodes import creation_error, until, until_each
from kraftlog.client.deadline import Deadline
from kraftlog.wire.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster
    from kraftlog.client.connection import Connection

PARTITIONS, IN_TOPIC = 100_000, 1_000
CALM_PERCENT, CALM_FOR_S, CALM_WITHIN_S = 5, 1, 240


def one_node(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure a node's clean stop and start with many partitions, and then the node at rest."""
    begin = time.perf_counter()
    topics = created(cluster, plan.count(PARTITIONS))
    result.add("cluster.node.created", cluster.name, time.perf_counter() - begin)
    until_calm(cluster)
    node = cluster.first
    begin = time.perf_counter()
    node.stop(signal.SIGTERM)
    result.add("cluster.node.stop", cluster.name, time.perf_counter() - begin)
    begin = time.perf_counter()
    node.start()
    for topic in (topics[-1], topics[0]):
        until_each(node.port, [topic], lambda it: it.leader_id > 0)
        until(node.port, partial(accepts, topic=topic))
    result.add("cluster.node.start", cluster.name, time.perf_counter() - begin)
    at_rest(cluster, plan, result, "node")


def accepts(connection: Connection, topic: str) -> bool:
    """Whether a produce request is acknowledged."""
    answer = connection.call(frame_client.produce(topic, 100), frame_client.deadline())
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code == 0


def created(cluster: Cluster, partitions: int, prefix: str = "wide") -> list[str]:
    """Create topics with that many partitions in all; wait until every node has them."""
    topics: list[str] = []
    with closing(frame_client.connect(cluster.nodes[cluster.controller()].port)) as connection:
        while partitions > 0:
            topics.append(f"{prefix}-{len(topics)}")
            code = creation_error(connection, topics[-1], min(IN_TOPIC, partitions), replicas=1)
            assert code == 0, f"{topics[-1]} can't be created: error {code}"
            partitions -= IN_TOPIC
    for node in cluster.nodes.values():
        until_each(node.port, topics[-1:], lambda it: it.leader_id > 0)
    return topics


def until_calm(cluster: Cluster) -> None:
    """Wait until all nodes together use little CPU; folders are created half a second later."""
    end = Deadline(CALM_WITHIN_S)
    while not end.is_over:
        before = cluster.cpu_seconds()
        time.sleep(CALM_FOR_S)
        if cluster.cpu_seconds() - before < CALM_FOR_S * CALM_PERCENT / 100:
            return
    raise TimeoutError(f"{cluster.name} is still busy {CALM_WITHIN_S} s after the last change")

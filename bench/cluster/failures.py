"""Thousands of replicated partitions: their creation, their cost at rest, and a node's failure."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.beside.machine import cpu_seconds, rss_mb
from bench.cluster.nodes import (
    IDS,
    TIMEOUT_S,
    codes_in_the_end,
    elect_preferred_leaders,
    has_full_isr,
    try_to_create,
    wait_until_each,
)
from kraftlog.client.deadline import Deadline
from kraftlog.errors import UnreachableError
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster
    from kraftlog.client.connection import Connection
    from kraftlog.wire.messages.metadata import MetadataResponsePartition

TOPICS, PARTITIONS = 100, 100
#: The interval of checking whether every ISR is full, which takes seconds.
POLL_INTERVAL_S = 0.1


def partitions(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Create many partitions, and measure the nodes when there is nothing left to do."""
    create_partitions(cluster, plan, result)
    at_rest(cluster, plan, result, "rest")


def create_partitions(cluster: Cluster, plan: Plan, result: Result) -> None:
    begin = time.perf_counter()
    topics = [f"many-{number}" for number in range(plan.count(TOPICS, minimum=2))]
    with closing(frame_client.connect(cluster.nodes[cluster.controller()].port)) as connection:
        for name in topics:
            code = try_to_create(connection, name, PARTITIONS)
            assert code == 0, f"{name} can't be created: error {code}"
    result.add("cluster.created.acked", cluster.name, time.perf_counter() - begin)
    cluster.topics = topics
    wait_until_full(cluster)
    result.add("cluster.created.full", cluster.name, time.perf_counter() - begin)


def at_rest(cluster: Cluster, plan: Plan, result: Result, key: str) -> None:
    """Measure the CPU time of the busiest node, and the memory of the largest."""
    time.sleep(plan.settle_s)
    pids = [node.pid for node in cluster.nodes.values()]
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(plan.rest_s)
    used = [cpu_seconds(pid) - spent for pid, spent in zip(pids, before, strict=True)]
    result.add(f"cluster.{key}.cpu", cluster.name, 100 * max(used) / plan.rest_s)
    result.add(f"cluster.{key}.rss", cluster.name, max(rss_mb(pid) for pid in pids))


def shutdown(cluster: Cluster, _: Plan, result: Result) -> None:
    measure_balanced_restart(cluster, signal.SIGTERM, "shutdown", result)


def kill(cluster: Cluster, _: Plan, result: Result) -> None:
    measure_balanced_restart(cluster, signal.SIGKILL, "kill", result)


def measure_balanced_restart(
    cluster: Cluster, stop_signal: signal.Signals, key: str, result: Result
) -> None:
    """Stop a broker that leads a third of the partitions, and start it again."""
    elect_first_replicas(cluster)
    measure_restart(cluster, stop_signal, key, result, other_than_controller(cluster))


def other_than_controller(cluster: Cluster) -> int:
    """A broker that is not the active controller."""
    return max(set(IDS) - {cluster.controller()})


def measure_restart(
    cluster: Cluster, stop_signal: signal.Signals, key: str, result: Result, victim: int
) -> None:
    """Stop a broker, wait until others lead its partitions, and start it again."""
    active = cluster.controller()
    controller_port = cluster.nodes[active].port
    node = cluster.nodes[victim]

    def stop() -> None:
        node.stop(stop_signal)
        result.add(f"cluster.{key}.exited", cluster.name, time.perf_counter() - begin)

    def has_another_leader(partition: MetadataResponsePartition) -> bool:
        return partition.leader_id > 0 and partition.leader_id != victim

    def has_left_the_isr(partition: MetadataResponsePartition) -> bool:
        return victim not in partition.isr_nodes

    stopper = threading.Thread(target=stop)
    begin = time.perf_counter()
    stopper.start()
    wait_until_each(controller_port, cluster.topics, has_another_leader)
    result.add(f"cluster.{key}.moved", cluster.name, time.perf_counter() - begin)
    stopper.join()
    wait_until_each(controller_port, cluster.topics, has_left_the_isr, POLL_INTERVAL_S)
    begin = time.perf_counter()
    node.start()
    wait_until_full(cluster, last=victim)
    result.add(f"cluster.{key}.back", cluster.name, time.perf_counter() - begin)


def leaderships(cluster: Cluster, _: Plan, result: Result) -> None:
    """Let one broker lead all partitions, kill it, and distribute the partitions again."""
    wait_until_full(cluster)
    victim = other_than_controller(cluster)
    others = [each for each in IDS if each != victim]
    reassign(cluster, lambda _: (victim, *others))
    measure_restart(cluster, signal.SIGKILL, "leaderships", result, victim)
    wait_until_full(cluster)
    reassign(cluster, lambda index: (*IDS[index % len(IDS) :], *IDS[: index % len(IDS)]))


def reassign(cluster: Cluster, order: Callable[[int], tuple[int, ...]]) -> None:
    """Change the order of each partition's replicas, and let the first one lead."""
    with closing(frame_client.connect(cluster.first.port)) as connection:
        for name in cluster.topics:
            parts = [
                ReassignablePartition(partition_index=index, replicas=order(index))
                for index in range(PARTITIONS)
            ]
            request = AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name=name, partitions=parts)]
            )
            refused = codes_in_the_end(connection, partial(_alter, request=request))
            assert not refused, f"{name} can't be reassigned: errors {refused}"
    elect_first_replicas(cluster)


def _alter(connection: Connection, request: AlterPartitionReassignmentsRequest) -> set[int]:
    response = connection.call(request, frame_client.deadline())
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    codes = [each.error_code for topic in response.responses for each in topic.partitions]
    return {response.error_code, *codes}


def failover(cluster: Cluster, _: Plan, result: Result) -> None:
    """Kill the active controller, for good; clients then create a topic through the other nodes."""
    elect_first_replicas(cluster)
    active = cluster.controller()
    others = [cluster.nodes[each] for each in IDS if each != active]
    begin = time.perf_counter()
    cluster.nodes[active].stop(signal.SIGKILL)
    create_with_retries([node.port for node in others])
    result.add("cluster.failover", cluster.name, time.perf_counter() - begin)


def create_with_retries(ports: list[int]) -> None:
    end = Deadline(TIMEOUT_S)
    number = 0
    while not end.is_over:
        number += 1  # another name each time: the topic may exist in spite of an error
        try:
            with closing(frame_client.connect(ports[number % len(ports)])) as connection:
                if try_to_create(connection, f"next-{number}") == 0:
                    return
        except UnreachableError:
            pass
        time.sleep(frame_client.RETRY_INTERVAL_S)
    raise TimeoutError(f"no topic within {TIMEOUT_S} s of the kill")


def elect_first_replicas(cluster: Cluster) -> None:
    """Wait until all replicas are in sync; then make each partition's first replica its leader."""
    wait_until_full(cluster)
    port = cluster.nodes[cluster.controller()].port
    elect_preferred_leaders(port, cluster.topics, PARTITIONS)
    wait_until_each(
        port, cluster.topics, lambda it: it.leader_id == it.replica_nodes[0], POLL_INTERVAL_S
    )


def wait_until_full(cluster: Cluster, last: int = 0) -> None:
    """Wait until the Metadata of each node has every ISR full; ask the node `last` at the end."""
    for node_id in sorted(IDS, key=lambda each: each == last):
        wait_until_each(cluster.nodes[node_id].port, cluster.topics, has_full_isr, POLL_INTERVAL_S)

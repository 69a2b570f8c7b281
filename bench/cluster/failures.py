"""Thousands of replicated partitions: created, at rest, and led by others when a node ends."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.beside.machine import cpu_seconds, rss_mb
from bench.cluster.nodes import (
    IDS,
    WITHIN_S,
    creation_error,
    elect_preferred,
    is_full,
    until_each,
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
    from kraftlog.wire.messages.metadata import MetadataResponsePartition

TOPICS, PARTITIONS = 100, 100
#: How often it is looked whether a node has every ISR full, which takes seconds.
LOOK_EVERY_S = 0.1


def partitions(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Create many partitions, and measure the nodes when there is nothing left to do."""
    created(cluster, plan, result)
    at_rest(cluster, plan, result, "rest")


def created(cluster: Cluster, plan: Plan, result: Result) -> None:
    begin = time.perf_counter()
    topics = [f"many-{number}" for number in range(plan.count(TOPICS, least=2))]
    with closing(frame_client.connect(cluster.nodes[cluster.controller()].port)) as connection:
        for name in topics:
            code = creation_error(connection, name, PARTITIONS)
            assert code == 0, f"{name} can't be created: error {code}"
    result.add("cluster.created.acked", cluster.name, time.perf_counter() - begin)
    cluster.topics = topics
    until_full(cluster)
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
    ended(cluster, signal.SIGTERM, "shutdown", result)


def kill(cluster: Cluster, _: Plan, result: Result) -> None:
    ended(cluster, signal.SIGKILL, "kill", result)


def ended(cluster: Cluster, how: signal.Signals, key: str, result: Result) -> None:
    """End a broker that leads a third of the partitions, and start it again."""
    balanced(cluster)
    end(cluster, how, key, result, other_than_controller(cluster))


def other_than_controller(cluster: Cluster) -> int:
    """A broker whose end leaves the active controller alone."""
    return max(set(IDS) - {cluster.controller()})


def end(cluster: Cluster, how: signal.Signals, key: str, result: Result, victim: int) -> None:
    """End a broker, see its partitions led by others, and start it again."""
    active = cluster.controller()
    witness = cluster.nodes[active].port
    node = cluster.nodes[victim]

    def stop() -> None:
        node.stop(how)
        result.add(f"cluster.{key}.gone", cluster.name, time.perf_counter() - begin)

    def has_another_leader(partition: MetadataResponsePartition) -> bool:
        return partition.leader_id > 0 and partition.leader_id != victim

    def has_left_the_isr(partition: MetadataResponsePartition) -> bool:
        return victim not in partition.isr_nodes

    stopper = threading.Thread(target=stop)
    begin = time.perf_counter()
    stopper.start()
    until_each(witness, cluster.topics, has_another_leader)
    result.add(f"cluster.{key}.moved", cluster.name, time.perf_counter() - begin)
    stopper.join()
    until_each(witness, cluster.topics, has_left_the_isr, LOOK_EVERY_S)
    begin = time.perf_counter()
    node.start()
    until_full(cluster, last=victim)
    result.add(f"cluster.{key}.back", cluster.name, time.perf_counter() - begin)


def leaderships(cluster: Cluster, _: Plan, result: Result) -> None:
    """Let one broker lead all partitions, kill it, and distribute the partitions again."""
    until_full(cluster)
    victim = other_than_controller(cluster)
    others = [each for each in IDS if each != victim]
    prefer(cluster, lambda _: (victim, *others))
    end(cluster, signal.SIGKILL, "leaderships", result, victim)
    until_full(cluster)
    prefer(cluster, lambda index: (*IDS[index % len(IDS) :], *IDS[: index % len(IDS)]))


def prefer(cluster: Cluster, order: Callable[[int], tuple[int, ...]]) -> None:
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
            answer = connection.call(request, frame_client.deadline())
            assert isinstance(answer, AlterPartitionReassignmentsResponse)
            codes = {each.error_code for topic in answer.responses for each in topic.partitions}
            assert {answer.error_code, *codes} == {0}, f"{name} can't be reassigned: {answer}"
    balanced(cluster)


def failover(cluster: Cluster, _: Plan, result: Result) -> None:
    """Kill the active controller, for good; clients then ask the other nodes for a new topic."""
    balanced(cluster)
    active = cluster.controller()
    others = [cluster.nodes[each] for each in IDS if each != active]
    begin = time.perf_counter()
    cluster.nodes[active].stop(signal.SIGKILL)
    until_a_topic_is_created([node.port for node in others])
    result.add("cluster.failover", cluster.name, time.perf_counter() - begin)


def until_a_topic_is_created(ports: list[int]) -> None:
    end = Deadline(WITHIN_S)
    number = 0
    while not end.is_over:
        number += 1  # each time another name, as a topic may exist although an error was answered
        try:
            with closing(frame_client.connect(ports[number % len(ports)])) as connection:
                if creation_error(connection, f"next-{number}") == 0:
                    return
        except UnreachableError:
            pass
        time.sleep(frame_client.TRY_EVERY_S)
    raise TimeoutError(f"no topic within {WITHIN_S} s of the kill")


def balanced(cluster: Cluster) -> None:
    """Wait until every replica is in sync and every partition is led by its first replica."""
    until_full(cluster)
    port = cluster.nodes[cluster.controller()].port
    elect_preferred(port, cluster.topics, PARTITIONS)
    until_each(port, cluster.topics, lambda it: it.leader_id == it.replica_nodes[0], LOOK_EVERY_S)


def until_full(cluster: Cluster, last: int = 0) -> None:
    """Wait until every node's Metadata has every ISR full, one node after the other."""
    for node_id in sorted(IDS, key=lambda each: each == last):
        until_each(cluster.nodes[node_id].port, cluster.topics, is_full, LOOK_EVERY_S)

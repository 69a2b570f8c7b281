"""What is measured, for which peers, and on which nodes."""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.beside.rows import BARE, KAFKA, KRAFTLOG
from bench.cluster import failures, latency, loads, wide
from bench.cluster.bare import BareCluster
from bench.cluster.cables import longest_wait_when_cut
from bench.cluster.changes import changes
from bench.cluster.longest_wait import longest_wait
from bench.cluster.nodes import IDS, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.beside.figures import Result
    from bench.beside.plan import Plan

BOTH = (KAFKA, KRAFTLOG)
WITH_BARE = (*BOTH, BARE)
#: In the order in which they run.
PEERS = WITH_BARE
OPEN_FILES = 1 << 20


def three_nodes(peer: str, folder: str) -> Cluster:
    return BareCluster(folder) if peer == BARE else Cluster(peer, folder, IDS)


def new_three_nodes(peer: str, folder: str) -> Cluster:
    """A function of its own, so that its task does not share the cluster of earlier tasks."""
    return three_nodes(peer, folder)


def other_three_nodes(peer: str, folder: str) -> Cluster:
    """All three run, unlike after `failover`."""
    return three_nodes(peer, folder)


def no_nodes(peer: str, folder: str) -> Cluster:
    """For a task that makes a cluster of its own."""
    return Cluster(peer, folder, ())


def one_node(peer: str, folder: str) -> Cluster:
    """A node that may open a file for each of very many partitions, as Kafka does."""
    with suppress(ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    return Cluster(peer, folder, IDS[:1])


@dataclass(frozen=True)
class Task:
    """A part of the comparison, which has a table of its own.

    `cluster` makes the cluster; consecutive tasks with the same function share one.
    `needs_partitions`: many partitions are created first, if the cluster has none yet. `if_named`:
    peers with which the task takes minutes, and which are measured only if the task is named.
    """

    measure: Callable[[Cluster, Plan, Result], None]
    cluster: Callable[[str, str], Cluster] = three_nodes
    peers: tuple[str, ...] = BOTH
    if_named: tuple[str, ...] = ()
    needs_partitions: bool = False


#: In the order in which they run. After `failover` a node is dead.
TASKS = {
    "produce": Task(loads.produce, peers=WITH_BARE),
    "latency": Task(latency.latency, peers=WITH_BARE),
    "consume": Task(loads.consume),
    "create": Task(latency.create),
    "partitions": Task(failures.partitions),
    "shutdown": Task(failures.shutdown, needs_partitions=True),
    "kill": Task(failures.kill, needs_partitions=True),
    "leaderships": Task(failures.leaderships, needs_partitions=True),
    "failover": Task(failures.failover, needs_partitions=True),
    "longest_wait": Task(longest_wait, other_three_nodes),
    "cable": Task(longest_wait_when_cut, no_nodes),
    "changes": Task(changes, new_three_nodes, peers=(KRAFTLOG,)),
    "node": Task(wide.one_node, one_node, peers=(KRAFTLOG,), if_named=(KAFKA,)),
}
#: Tasks that use clients in C.
NEED_PROGRAMS = ("produce", "latency", "consume")

"""The sections of docs/generated/performance.md: how each is measured, and the code it measures."""

from __future__ import annotations

from dataclasses import dataclass

from bench.beside import rows as beside
from bench.cluster import rows as cluster

#: The whole broker, without what only its commands and Spark use.
BROKER = tuple(
    f"src/kraftlog/{name}"
    for name in (
        "authorization",
        "controller",
        "groups",
        "logstate",
        "metadata",
        "node",
        "quotas",
        "raft",
        "records",
        "replication",
        "runner",
        "sasl",
        "server",
        "storage",
        "tls",
        "wire",
    )
)
QUORUM = tuple(
    f"src/kraftlog/{name}"
    for name in ("controller", "metadata", "node", "raft", "runner", "server", "storage")
)
SPARK = ("src/kraftlog/spark", "src/kraftlog/client", "src/kraftlog/records", "src/kraftlog/wire")


@dataclass(frozen=True)
class Section:
    """A part of the page that is measured by itself.

    `name`: the arguments of `python -m bench` that measure it. `titles`: its headings, each without
    the command in parentheses. `paths`: the code that it measures; the section is stale if that
    changed long after the measurement. `minutes`: how long it takes, until it has been measured
    once. `shares`: consecutive sections with the same word run in one command, which they share.
    """

    name: str
    titles: tuple[str, ...]
    paths: tuple[str, ...]
    minutes: float
    shares: str = ""
    with_kafka: bool = False


def module(name: str, title: str, minutes: float, *paths: str) -> Section:
    """A module whose function `cases()` yields (what, figure, unit)."""
    return Section(name, (title,), paths, minutes)


def _beside(case: str, minutes: float) -> Section:
    titles = tuple(beside.TITLES[each] for each in beside.SECTIONS[case])
    return Section(f"beside {case}", titles, BROKER, minutes, with_kafka=True)


def _cluster(task: str, minutes: float, shares: str = "", *, with_kafka: bool = True) -> Section:
    title = cluster.TITLES[task]
    return Section(f"cluster {task}", (title,), BROKER, minutes, shares, with_kafka)


MODULES = (
    module("wire", "Messages to bytes and back", 3, "src/kraftlog/wire"),
    module("records", "Record batches", 3, "src/kraftlog/records"),
    module("storage", "Logs on disk", 5, "src/kraftlog/storage", "src/kraftlog/records"),
    module("node", "Requests", 4, *BROKER),
    module("many_partitions", "Requests for many partitions", 2, *BROKER),
    module("stalls", "Stalls", 6, *BROKER),
    module("connections", "Many requests, many connections", 4, *BROKER),
    module(
        "controller",
        "Decisions about the cluster",
        3,
        "src/kraftlog/controller",
        "src/kraftlog/metadata",
    ),
    module("groups", "Consumer groups", 3, "src/kraftlog/groups", "src/kraftlog/node"),
    module("quorum", "Changes of the cluster", 5, *QUORUM),
    module("voters", "Changes of the voters", 5, *QUORUM),
    module("reads", "Reads of metadata in a cluster", 3, *QUORUM),
    module("simulator", "Simulation", 4, "simulator/src", "src/kraftlog/raft"),
)
#: In the order of the page and of a night.
SECTIONS = (
    _beside("start", 2),
    _beside("memory", 6),
    _beside("produce", 5),
    _beside("consume", 4),
    _beside("latency", 4),
    _beside("tools", 4),
    _beside("workloads", 6),
    _beside("secured", 9),
    _beside("quorum", 5),
    _cluster("produce", 4, "loads"),
    _cluster("latency", 3, "loads"),
    _cluster("consume", 2, "loads"),
    _cluster("create", 1, "loads"),
    _cluster("partitions", 4, "partitions"),
    _cluster("shutdown", 2, "partitions"),
    _cluster("kill", 2, "partitions"),
    _cluster("leaderships", 4, "partitions"),
    _cluster("failover", 1, "partitions"),
    _cluster("longest_wait", 15),
    _cluster("cable", 6),
    _cluster("changes", 1, with_kafka=False),
    _cluster("node", 2, with_kafka=False),
    Section("quorums", ("The quorum beside etcd and ZooKeeper",), QUORUM, 8, with_kafka=True),
    Section("spark", ("On Apache Spark",), SPARK, 12),
    *MODULES,
)
BY_NAME = {section.name: section for section in SECTIONS}
#: The titles of the page's main sections, in their order.
PAGE_TITLES = (
    beside.TITLE,
    cluster.TITLE,
    *(section.titles[0] for section in SECTIONS if " " not in section.name),
)

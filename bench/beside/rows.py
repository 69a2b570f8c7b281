"""The rows of the comparison: names, units and goals.

A goal is relative to Kafka's figure in the same run, or absolute. Both are converted to how many
times better than Kafka the figure must be, which the picture shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "Beside Apache Kafka"
#: The peers, in the order of the table's columns.
KAFKA, KRAFTLOG = "kafka", "kraftlog"
PEERS = (KAFKA, KRAFTLOG)
#: A server that does the least that any broker must do, where it can be measured.
BARE = "bare"


@dataclass(frozen=True)
class Goal:
    """A goal as text, and how many times better than Kafka's figure it is.

    `is_relative`: the goal itself is a multiple of Kafka's figure, not an absolute limit.
    """

    text: str
    times: Callable[[float], float]
    is_relative: bool = False


@dataclass(frozen=True)
class Row:
    """A row: `key` names its figures in stored results, and `clients` the clients' CPU time.

    `only_kraftlog` rows are not measured with Kafka.
    """

    key: str
    what: str
    unit: str
    goal: Goal | None = None
    more_is_better: bool = False
    clients: str = ""
    only_kraftlog: bool = False

    def times_better(self, kafka: float, other: float) -> float:
        """How many times better than Kafka's figure another one is; below 1 it is worse."""
        return other / kafka if self.more_is_better else kafka / other

    def goal_times(self, kafka: float) -> float | None:
        return self.goal.times(kafka) if self.goal else None


def times(factor: float) -> Goal:
    """Better than Kafka in the same run by a factor."""
    return Goal(f"{factor:g}×", lambda _: factor, is_relative=True)


def share(fraction: float) -> Goal:
    """At most this fraction of Kafka's figure in the same run."""
    return Goal(f"{fraction:g} of Kafka's", lambda _: 1 / fraction, is_relative=True)


def at_most(limit: float) -> Goal:
    return Goal(f"≤ {limit:g}", lambda kafka: kafka / limit)


def at_least(rate: float) -> Goal:
    return Goal(f"≥ {rate:,.0f}", lambda kafka: rate / kafka)


def load(key: str, what: str, rate_times: float, cpu_times: float | None) -> tuple[Row, Row]:
    """Records per second, and the broker's CPU time; the goals are times better than Kafka's."""
    cost = times(cpu_times) if cpu_times else None
    return (
        Row(f"{key}.rate", what, "records/s", times(rate_times), more_is_better=True),
        Row(f"{key}.cpu", f"{what}: CPU of the broker", "s/GB", cost, clients=f"{key}.clients"),
    )


def percentile_rows(
    key: str, what: str, unit: str, p50: Goal | None, p99: Goal | None
) -> tuple[Row, Row]:
    return (
        Row(f"{key}.p50", f"{what}, p50", unit, p50),
        Row(f"{key}.p99", f"{what}, p99", unit, p99),
    )


def new_group(key: str) -> tuple[Row, Row]:
    """librdkafka itself waits for 100 ms before it requests the start of a partition."""
    what = "new group to its first record"
    return (
        Row(f"{key}.group", what, "ms", at_most(100)),
        Row(f"{key}.group.librdkafka", f"{what}, librdkafka (100 ms are its own)", "ms"),
    )


def commits(key: str, where: str) -> tuple[Row, ...]:
    """Small metadata changes with three controllers."""
    what = f"256 clients at once, {where}"
    return (
        *percentile_rows(
            f"quorum.{key}", f"metadata commit {where}", "ms", at_most(1.7), at_most(5)
        ),
        Row(f"quorum.{key}.rate", what, "commits/s", at_least(6500), more_is_better=True),
    )


#: The partitions of the topic in each of the workloads.
WORKLOAD_PARTITIONS = (1, 16, 100)
PERCENTILES = ("p50", "p95", "p99", "p99.9")


def at_least_equal() -> Goal:
    return Goal("as Kafka", lambda _: 1, is_relative=True)


def workload(partitions: int) -> tuple[Row, ...]:
    """The peak rate, and the latencies at half of the lower peak of both."""
    key, what = f"workload.{partitions}", "latency at half of the lower peak"
    return (
        Row(f"{key}.peak", "peak rate", "records/s", at_least_equal(), more_is_better=True),
        *[Row(f"{key}.{each}", f"{what}, {each}", "ms", at_least_equal()) for each in PERCENTILES],
        Row(f"{key}.rate", "rate reached meanwhile", "records/s", more_is_better=True),
    )


ROWS: dict[str, tuple[Row, ...]] = {
    "start": (
        Row("start.metadata", "shell to first answered Metadata", "ms", at_most(200)),
        Row("start.stop", "SIGTERM to exit", "ms", at_most(150)),
        Row("start.rss", "memory, idle", "MB", at_most(40)),
        Row("start.rest", "CPU at rest, of one core", "%", at_most(0.5)),
    ),
    "memory": (Row("memory.rss", "memory under load, at its end", "MB", at_most(64)),),
    "produce": (
        *load("produce.100B", "produce 100 B, acks=1, batched", 1.4, 2.5),
        *load("produce.1KiB", "produce 1 KiB", 2.5, 3),
        *load("produce.100KiB", "produce 100 KiB", 3.5, 3),
        *load("produce.idempotent", "produce 100 B, idempotent, acks=all", 1.5, 3),
        *load("produce.defaults", "produce 100 B, librdkafka's defaults", 1.2, None),
        *load("produce.java", "produce 100 B, Java producer's defaults", 2, None),
        Row(
            "produce.unbatched.rate",
            "produce 100 B, unbatched, many in flight",
            "requests/s",
            times(9),
            more_is_better=True,
        ),
        Row(
            "produce.unbatched.cpu",
            "produce 100 B, unbatched: CPU of the broker",
            "µs/request",
            at_most(11),
            clients="produce.unbatched.clients",
        ),
    ),
    "consume": (
        *load("consume.100B", "consume 100 B", 1.15, 3),
        *load("consume.1KiB", "consume 1 KiB", 1.7, 3),
        *load("consume.100KiB", "consume 100 KiB", 2, 3),
    ),
    "latency": (
        *percentile_rows("latency.sync", "one synchronous produce", "ms", share(0.6), share(0.6)),
        Row("latency.together", "the same on one core with its client, p50", "ms"),
        Row("latency.apart", "the same on another core than its client, p50", "ms"),
        *percentile_rows(
            "latency.through", "end to end, 100 a second", "ms", share(0.8), share(0.8)
        ),
        *new_group("latency"),
        Row("latency.create", "create topic, p50", "ms", at_most(3)),
        Row("latency.commit", "metadata commit, p50", "ms", at_most(1.5)),
    ),
    "tuned": (
        *new_group("tuned"),
        Row("tuned.create", "create topic, p50", "ms"),
        Row("tuned.commit", "metadata commit, p50", "ms"),
    ),
    "tools": (
        Row(
            "tools.produce.rate",
            "kafka-producer-perf-test, 1 KiB",
            "records/s",
            at_least_equal(),
            more_is_better=True,
        ),
        *percentile_rows("tools.produce", "the same, latency", "ms", None, None),
        Row(
            "tools.consume.rate",
            "kafka-consumer-perf-test, 1 KiB",
            "records/s",
            at_least_equal(),
            more_is_better=True,
        ),
        Row("tools.consume.rebalance", "the same, until it has its partitions", "ms"),
        Row("tools.through", "kafka-e2e-latency, 100 B, average", "ms", at_least_equal()),
    ),
    **{f"workload.{number}": workload(number) for number in WORKLOAD_PARTITIONS},
    "tls": (
        *load("tls.produce.1KiB", "produce 1 KiB over TLS, batched", 1.3, 1.5),
        *load("tls.consume.1KiB", "consume 1 KiB over TLS", 1.3, 1.5),
    ),
    "logins": (
        Row(
            "logins.rate",
            "connections with TLS and SCRAM-SHA-512, two clients",
            "1/s",
            at_least_equal(),
            more_is_better=True,
        ),
        Row("logins.cpu", "one of them: CPU of the broker", "ms"),
    ),
    "acls": (
        Row("acls.without.rate", "unbatched, no authorizer", "requests/s", more_is_better=True),
        Row("acls.rate", "unbatched, 10,000 ACLs", "requests/s", more_is_better=True),
        Row(
            "acls.share",
            "rate with ACLs, of that without",
            "",
            Goal("≥ 0.97", lambda kafka: 0.97 / kafka),
            more_is_better=True,
        ),
        Row("acls.without.cpu", "no authorizer: CPU of the broker", "µs/request"),
        Row("acls.cpu", "10,000 ACLs: CPU of the broker", "µs/request"),
        Row("acls.cost", "CPU with ACLs, of that without", "", at_most(1.03)),
    ),
    "quota": (
        Row("quota.rate", "five clients with one quota of 10 MB/s", "MB/s", more_is_better=True),
        Row("quota.error", "how far that is from the quota", "%", at_most(5)),
        *percentile_rows("quota.alone", "another client, before", "ms", None, None),
        *percentile_rows("quota.beside", "another client, beside them", "ms", None, None),
    ),
    "quorum": (
        *commits("broker", "asked of a broker"),
        *commits("leader", "asked of the leading controller"),
        Row(
            "quorum.kill",
            "kill -9 of the leading controller to the next acknowledged change",
            "ms",
            at_most(700),
        ),
    ),
}

#: The titles of the sections of the table.
TITLES = {
    "start": "Start, stop and rest",
    "memory": "Memory",
    "produce": "Produce, one partition",
    "consume": "Consume, one partition",
    "latency": "Latency",
    "tuned": "Latency, Kafka's delays for groups and metadata set to 0",
    "tools": "Kafka's own tools",
    **{
        f"workload.{number}": f"One topic of {number} partition{'s' * (number > 1)}, 1 KiB"
        for number in WORKLOAD_PARTITIONS
    },
    "tls": "TLS, one partition",
    "logins": "Logins",
    "acls": "Produce 100 B with ACLs",
    "quota": "Quotas",
    "quorum": "Three controllers and a broker",
}
#: The sections of each case.
SECTIONS = {
    "start": ("start",),
    "memory": ("memory",),
    "produce": ("produce",),
    "consume": ("consume",),
    "latency": ("latency", "tuned"),
    "tools": ("tools",),
    "workloads": tuple(f"workload.{number}" for number in WORKLOAD_PARTITIONS),
    "secured": ("tls", "logins", "acls", "quota"),
    "quorum": ("quorum",),
}

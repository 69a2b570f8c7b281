"""The rows of the comparison of clusters: names, units and goals, by task."""

from __future__ import annotations

from bench.beside.rows import Goal, Row, at_most, percentile_rows, share, times

TITLE = "Three nodes beside three of Apache Kafka"


def produce_rows(load: str, size: str, rate_times: float, unit: str = "MB/s") -> tuple[Row, Row]:
    """The rate, and the CPU time of all nodes; the goals are times better than Kafka's."""
    return throughput_rows(
        f"cluster.produce.{load}", f"produce {size}, acks=all, batched", unit, rate_times, 4
    )


def consume_rows(key: str, what: str) -> tuple[Row, Row]:
    return throughput_rows(
        f"cluster.consume.{key}", f"consume 1 KiB from {what}", "MB/s", 1.3, None
    )


def throughput_rows(
    key: str, what: str, unit: str, rate_times: float, cpu_times: float | None
) -> tuple[Row, Row]:
    return (
        Row(f"{key}.rate", what, unit, times(rate_times), more_is_better=True),
        Row(
            f"{key}.cpu",
            f"{what}: CPU of all nodes",
            "s/GB",
            times(cpu_times) if cpu_times else None,
        ),
    )


def seconds(key: str, what: str, goal: Goal | None = None, *, only_kraftlog: bool = False) -> Row:
    return Row(f"cluster.{key}", what, "s", goal, only_kraftlog=only_kraftlog)


def at_rest_rows(
    key: str, what: str, max_mb: float, max_percent: float, *, only_kraftlog: bool = False
) -> tuple[Row, ...]:
    rows = (
        ("rss", "resident memory", "MB", max_mb),
        ("cpu", "CPU at rest, of one core", "%", max_percent),
    )
    return tuple(
        Row(
            f"cluster.{key}.{kind}",
            f"{what}: {name}",
            unit,
            at_most(most),
            only_kraftlog=only_kraftlog,
        )
        for kind, name, unit, most in rows
    )


def change_rows(partitions: int) -> tuple[Row, ...]:
    """A topic created, and an ISR changed, in a cluster of this size."""
    key, where = f"cluster.changes.{partitions}", f"with {partitions:,} partitions in the cluster"
    rows = []
    for kind, what, goal in (
        ("create", "create a topic", at_most(4)),
        ("isr", "change an ISR (AlterPartition)", None),
    ):
        rows += [
            Row(f"{key}.{kind}.p50", f"{what} {where}, p50", "ms", goal, only_kraftlog=True),
            Row(f"{key}.{kind}.cpu", f"{what} {where}: CPU of all nodes", "ms", only_kraftlog=True),
        ]
    return tuple(rows)


def wait_rows(key: str, what: str, goal: Goal | None = None) -> tuple[Row, Row]:
    return (
        seconds(f"wait.{key}.p50", f"{what}: longest wait for an acknowledgement, p50"),
        seconds(f"wait.{key}.max", f"{what}: longest wait for an acknowledgement, maximum", goal),
    )


ROWS: dict[str, tuple[Row, ...]] = {
    "produce": (
        *produce_rows("100B", "100 B", 2, "records/s"),
        *produce_rows("1KiB", "1 KiB", 4),
        *produce_rows("100KiB", "100 KiB", 4),
    ),
    "latency": (
        *percentile_rows(
            "cluster.sync", "synchronous produce, acks=all", "ms", at_most(0.6), at_most(3)
        ),
        *percentile_rows(
            "cluster.through",
            "producer to consumer, acks=all, 100 messages a second",
            "ms",
            share(0.6),
            share(0.6),
        ),
    ),
    "consume": (
        *consume_rows("leaders", "3 partitions with 3 leaders"),
        *consume_rows("follower", "the nearest follower (client.rack)"),
    ),
    "create": percentile_rows("cluster.create", "create a topic", "ms", at_most(4), at_most(10)),
    "partitions": (
        seconds("created.acked", "create 10,000 partitions: acknowledged", at_most(2)),
        seconds("created.full", "create 10,000 partitions: all in sync on every node", at_most(8)),
        *at_rest_rows("rest", "each node with these 10,000 replicas", 150, 3),
    ),
    "shutdown": (
        seconds(
            "shutdown.moved", "controlled shutdown: all partitions led by others", at_most(0.5)
        ),
        seconds("shutdown.exited", "controlled shutdown: process exited", at_most(1.5)),
        seconds("shutdown.back", "restart after it: all in sync on every node", at_most(4)),
    ),
    "kill": (
        seconds("kill.moved", "`kill -9`: all partitions led by others", at_most(1)),
        seconds("kill.back", "restart after it: all in sync on every node", at_most(8)),
    ),
    "leaderships": (
        seconds("leaderships.moved", "`kill -9`: all partitions led by others", at_most(1)),
        seconds("leaderships.back", "restart after it: all in sync on every node"),
    ),
    "failover": (
        seconds("failover", "`kill -9` to the next acknowledged CreateTopics", at_most(0.4)),
    ),
    "longest_wait": (
        *wait_rows("kill", "`kill -9`", at_most(1)),
        *wait_rows("pause", "SIGSTOP for 20 s"),
        *wait_rows("pause.others", "SIGSTOP for 20 s, partitions of other leaders"),
        *wait_rows("stop", "clean stop", at_most(0.3)),
        *wait_rows("roll", "clean stop and start of all three"),
    ),
    "cable": (
        *wait_rows("cut", "cable cut for 20 s"),
        *wait_rows("cut.others", "cable cut for 20 s, partitions of other leaders"),
    ),
    "changes": (*change_rows(1_000), *change_rows(10_000), *change_rows(100_000)),
    "node": (
        seconds("node.created", "create 100,000 partitions: acknowledged", only_kraftlog=True),
        seconds("node.stop", "clean stop (SIGTERM)", only_kraftlog=True),
        seconds("node.start", "start, until writes are accepted", at_most(4), only_kraftlog=True),
        *at_rest_rows("node", "after the start", 400, 1, only_kraftlog=True),
    ),
}

#: The titles of the tables.
TITLES = {
    "produce": "Produce to one partition",
    "latency": "Latency of single messages",
    "consume": "Consume",
    "create": "Create topics of one partition",
    "partitions": "10,000 partitions",
    "shutdown": "Controlled shutdown of a broker that leads 3,333 partitions of 10,000",
    "kill": "Kill of a broker that leads 3,333 partitions of 10,000",
    "leaderships": "Kill of a broker that leads all 10,000 partitions",
    "failover": "Kill of the active controller, which is a broker too",
    "longest_wait": "Nodes fail or stop under an idempotent producer of librdkafka",
    "cable": "The cable of a node is cut under such a producer",
    "changes": "One metadata change in clusters of different sizes",
    "node": "One node with 100,000 partitions, replication 1",
}

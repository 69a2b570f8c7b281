"""The rows of the comparison of clusters: names, units and goals, by task."""

from __future__ import annotations

from bench.beside.rows import Goal, Row, at_most, pair, times

TITLE = "Three nodes beside three of Apache Kafka"


def produced(load: str, size: str, rate: float, unit: str = "MB/s") -> tuple[Row, Row]:
    """The rate, and the CPU time of all nodes."""
    key, what = f"cluster.produce.{load}", f"produce {size}"
    return (
        Row(f"{key}.rate", f"{what}, acks=all, batched", unit, times(rate), more_is_better=True),
        Row(f"{key}.cpu", f"{what}: CPU of all nodes", "s/GB", times(4)),
    )


def seconds(key: str, what: str, goal: Goal) -> Row:
    return Row(f"cluster.{key}", what, "s", goal)


ROWS: dict[str, tuple[Row, ...]] = {
    "produce": (
        *produced("100B", "100 B", 2, "records/s"),
        *produced("1KiB", "1 KiB", 4),
        *produced("100KiB", "100 KiB", 4),
    ),
    "sync": pair(
        "cluster.sync", "one synchronous produce, acks=all", "ms", at_most(0.6), at_most(3)
    ),
    "create": pair("cluster.create", "create topic", "ms", at_most(4), at_most(10)),
    "partitions": (
        seconds("made.acked", "10,000 partitions created: acknowledged", at_most(2)),
        seconds("made.full", "every ISR full, seen on every node", at_most(8)),
    ),
    "rest": (
        Row("cluster.rest.rss", "memory with them, of the largest node", "MB", at_most(150)),
        Row("cluster.rest.cpu", "CPU at rest, of one core, the busiest node", "%", at_most(3)),
    ),
    "shutdown": (
        seconds("shutdown.moved", "SIGTERM of a broker leading a third: moved", at_most(0.5)),
        seconds("shutdown.gone", "its process gone", at_most(1.5)),
        seconds("shutdown.back", "started again: every ISR full, on every node", at_most(4)),
    ),
    "kill": (
        seconds("kill.moved", "`kill -9` of a broker leading a third: moved", at_most(1)),
        seconds("kill.back", "started again: every ISR full, on every node", at_most(8)),
    ),
    "controller": (
        seconds("failover", "`kill -9` of the active controller: next topic made", at_most(0.4)),
    ),
}

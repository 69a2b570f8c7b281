"""The Spark benchmark fills its topic, and shows the figures of both data sources in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.spark.page import Figure, reached, row, section_text
from bench.spark.topic import PARTITIONS, RECORDS_PER_BATCH, VALUE, fill

from kraftlog import Client
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_topic_has_equal_partitions(our_node: str, named: Callable[[str], str]) -> None:
    count = fill(our_node, named("t"), 1)
    assert count == PARTITIONS * RECORDS_PER_BATCH
    with (
        Client(our_node, timeout_s=LIMIT_S) as client,
        client.consume(named("t"), "beginning", until_end=True) as consumer,
    ):
        records = [(record.partition, record.offset, record.value) for record in consumer]
    assert sorted(records) == [
        (partition, offset, VALUE)
        for partition in range(PARTITIONS)
        for offset in range(RECORDS_PER_BATCH)
    ]


def test_a_row_compares_medians() -> None:
    figure = Figure(
        {"kafka": [100.0, 300.0, 200.0], "kraftlog": [500.0, 400.0, 100.0]},
        {"kafka": [2.0, 2.5, 1.5], "kraftlog": [1.0, 1.1, 0.9]},
    )
    assert (
        row("batch", figure)
        == "| batch read to noop | 200 | 2 | 400 | 1 | 2.0× | 1.6× | 2.5× | aim: missing 1.2× |"
    )
    only_kraftlog = Figure({"kraftlog": [400.0]}, {"kraftlog": [1.0]})
    assert (
        row("batch", only_kraftlog) == "| batch read to noop |  |  | 400 | 1 |  | 1.6× | 2.5× |  |"
    )
    assert [reached(each, 1.6, 2.5) for each in (1.5, 2.0, 2.5, None)] == [
        "**missing 1.1×**",
        "aim: missing 1.2×",
        "reached",
        "",
    ]
    assert row("batch", figure) in section_text({"batch": figure}).splitlines()

"""The comparison as a part of docs/performance.md, from the newest result of each case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.beside.rows import KAFKA, KRAFTLOG, ROWS, SECTIONS, TITLES
from bench.page import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.beside.figures import Result
    from bench.beside.rows import Row

TITLE = "Beside Apache Kafka"
HEAD = f"""## {TITLE} (`python -m bench beside`)

Apache Kafka 4.3.1 and kraftlog, each as a user starts it (Kafka with the heap and the collector of
its own scripts), on the same cores in the same run, the clients on them too. Both are warmed, then
take turns; what stands here are medians of the rounds. Clients are librdkafka from C, plain
sockets from C, and Kafka's own producer-perf-test. Where much is written, free memory is held and
filled first, so that neither broker pays for memory that is touched for the first time. "CPU" is
the time of the broker's processes. "Better" says how many times better than Kafka in the same run
kraftlog is, and "to reach" what was set out to be reached.
"""
PICTURE = "beside-kafka.svg"


def part(results: Mapping[str, Result]) -> str:
    """The whole part; a case that has not been measured is missing, and named."""
    lines = [HEAD, f"![How many times better than Kafka, and the goals]({PICTURE})", ""]
    for case, sections in SECTIONS.items():
        if case not in results:
            lines += [f"Not measured: `{case}`.", ""]
            continue
        for section in sections:
            lines += [f"### {TITLES[section]}", "", *table(section, results[case]), ""]
        lines += [provenance(results[case]), ""]
    return "\n".join(lines)


def table(section: str, result: Result) -> Iterator[str]:
    yield "| | unit | Kafka | kraftlog | better | to reach | |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for row in ROWS[section]:
        found = compared(row, result)
        if found:
            yield "| " + " | ".join(found) + " |"


def compared(row: Row, result: Result) -> list[str] | None:
    """What stands in a row of the table; None when a peer has no figure."""
    medians = result.medians(row.key)
    if not medians.keys() >= {KAFKA, KRAFTLOG}:
        return None
    kafka, ours = medians[KAFKA], medians[KRAFTLOG]
    better = row.times_better(kafka, ours)
    return [
        row.what,
        row.unit,
        shown(kafka),
        shown(ours),
        f"{better:.3g}×",
        row.goal.text if row.goal else "",
        verdict(row, kafka, better),
    ]


def verdict(row: Row, kafka: float, better: float) -> str:
    goal = row.goal_times(kafka)
    if goal is None:
        return ""
    return "reached" if better >= goal else f"**missing {goal / better:.2g}×**"


def provenance(result: Result) -> str:
    """When it was measured, and how quiet the machine was."""
    counts = [len(each) for row in result.figures.values() for each in row.values()]
    words = [
        f"`{result.case}`: {result.began} to {result.ended} UTC, {max(counts, default=0)} rounds",
        f"at most; before it the machine was {result.idle_before:.0f} % idle.",
        *result.notes,
    ]
    if not result.is_full:
        words.append("**A trial run at small scale: not to be quoted.**")
    return " ".join(words)

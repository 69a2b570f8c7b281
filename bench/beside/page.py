"""The comparison as a section of docs/generated/performance.md, from the latest results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.beside.rows import BARE, KAFKA, KRAFTLOG, PEERS, ROWS, SECTIONS, TITLE, TITLES
from bench.page import figure_text, part

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from bench.beside.figures import Result
    from bench.beside.rows import Row

HEAD = f"""## {TITLE} (`python -m bench beside`)

Apache Kafka and kraftlog, each as a user starts it (Kafka with the heap and the collector of its
own scripts), on the same cores in the same run; the clients use these cores too. Both brokers are
warmed up, then take turns; the figures are medians of the rounds. Clients are librdkafka from
C, plain sockets from C, and Kafka's own producer-perf-test. Before large amounts are written, free
memory is held and filled, so that neither broker pays for memory that is touched for the first
time. "CPU" is the CPU time of the broker's processes. "Better" says how many times better kraftlog
is than Kafka in the same run, and "to reach" is the goal.

The bare server is a program in C that the same clients talk to in the same rounds. It does what no
broker can leave out, in one thread and without checks: it receives, writes to the page cache and
responds, or sends from its file. Where kraftlog misses a goal, the table says how many times better
than Kafka the bare server is. If it misses the goal too, no broker can reach the goal with these
clients on this machine; if it reaches the goal, there is room for kraftlog to improve.

The workloads are those of OpenMessaging's benchmark, with librdkafka as the load: first as fast as
the broker takes them, then at half of the lower peak, the same rate for both. A latency begins when
a record is due and ends with its acknowledgement, so a broker that falls behind is charged for it.

For TLS, logins, ACLs and quotas both brokers have the same `server.properties`. Clients that log in
derive the key from the password once, so that the broker's share of a login is what is measured.
The 10,000 ACLs are in place on a node of their own, and each round compares it with one that has no
authorizer. A quota is measured for a minute, once it no longer allows what was not used before.

One synchronous produce is mostly the waking of two sleeping processes, which takes longer across
cores. The scheduler decides whether client and broker share a core, and keeps to it for minutes, so
the same build may show either figure. So it is also measured with both on one core, and on two.
"""
PICTURE = "beside-kafka.svg"


def section_text(results: Mapping[str, Result], old: str = "") -> str:
    """The whole section: the tables of these results, those of an earlier page for other cases.

    It names the cases that have never been measured.
    """
    lines = [HEAD, f"![How many times better than Kafka, and the goals]({PICTURE})", ""]
    for case, names in SECTIONS.items():
        if case in results:
            lines += [*tables(results[case]), provenance(results[case]), ""]
            continue
        for title in [TITLES[name] for name in names]:
            not_measured = f"### {title}\n\nNot measured: `python -m bench beside {case}`."
            lines += [(part(old, title) or not_measured).rstrip("\n"), ""]
    return "\n".join(lines)


def tables(result: Result) -> Iterator[str]:
    """The tables of one case."""
    for section in SECTIONS[result.case]:
        yield from (f"### {TITLES[section]}", "", *table(ROWS[section], result), "")
        yield from client_cpu(section, result)


def table(rows: Sequence[Row], result: Result) -> Iterator[str]:
    """A line for each row with the figures to compare; a column for the bare server if measured."""
    medians_of = {row: result.medians(row.key) for row in rows}
    with_bare = any(BARE in medians for medians in medians_of.values())
    columns = f"Kafka | kraftlog |{' bare server |' * with_bare} better | to reach"
    yield f"| | unit | {columns} | |"
    yield f"|---|---|{'---:|' * (4 + with_bare)}---|"
    for row, medians in medians_of.items():
        if is_comparable(row, medians):
            yield "| " + " | ".join(compared(row, medians, with_bare)) + " |"


def is_comparable(row: Row, peers: Container[str]) -> bool:
    return KRAFTLOG in peers and (KAFKA in peers or row.only_kraftlog)


def compared(row: Row, medians: Mapping[str, float], with_bare: bool) -> Iterator[str]:
    """The cells of a row."""
    kafka = medians.get(KAFKA)
    kafka_or_1 = kafka or 1.0  # cancelled out in comparisons with an absolute goal
    better = row.times_better(kafka_or_1, medians[KRAFTLOG])
    bare = row.times_better(kafka_or_1, medians[BARE]) if BARE in medians else None
    yield row.what
    yield row.unit
    yield figure_text(kafka) if kafka else ""
    yield figure_text(medians[KRAFTLOG])
    if with_bare:
        yield figure_text(medians[BARE]) if BARE in medians else ""
    yield f"{better:.3g}×" if kafka else ""
    yield row.goal.text if row.goal else ""
    yield verdict(row, kafka_or_1, better, bare) if kafka or not is_relative(row) else ""


def is_relative(row: Row) -> bool:
    return row.goal is not None and row.goal.is_relative


def verdict(row: Row, kafka: float, better: float, bare: float | None = None) -> str:
    """Whether the goal is reached; if not, also the bare server's figure."""
    goal = row.goal_times(kafka)
    if goal is None:
        return ""
    if better >= goal:
        return "reached"
    missing = f"**missing {goal / better:.2g}×**"
    if bare is None:
        return missing
    room = ", so there is room" if bare >= goal else ""
    return f"{missing}; the bare server: {bare:.3g}×{room}"


def client_cpu(section: str, result: Result) -> Iterator[str]:
    """The CPU time of the clients, if measured."""
    words = []
    for row in ROWS[section]:
        medians = result.medians(row.clients)
        if medians:
            figures = " / ".join(
                [figure_text(medians[peer]) for peer in (*PEERS, BARE) if peer in medians]
            )
            words.append(f"{row.what.partition(':')[0]}: {figures} {row.unit}")
    if words:
        yield f"CPU of the clients, with Kafka / kraftlog / the bare server: {'; '.join(words)}."
        yield ""


def provenance(result: Result) -> str:
    """The time of the measurement, and the idle share of the machine."""
    counts = [len(each) for row in result.figures.values() for each in row.values()]
    words = [
        f"`{result.case}`: {result.began} to {result.ended} UTC, {max(counts, default=0)} rounds",
        f"at most; before it the machine was {result.idle_before:.0f} % idle.",
        *result.notes,
    ]
    if not result.is_full:
        words.append("**A trial run at small scale: not to be quoted.**")
    return " ".join(words)

"""The comparison of clusters as a section of docs/generated/performance.md, a table for each task.

A run replaces the tables of the tasks that it has measured, and keeps the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.beside import page
from bench.cluster.rows import ROWS, TITLE, TITLES
from bench.page import part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.beside.figures import Result

HEAD = f"""## {TITLE} (`python -m bench cluster`)

Three nodes, each broker and controller, with replication factor 3 and `min.insync.replicas` 2, run
on the same cores as the clients; Apache Kafka has the heap and the collector of its own scripts.
The clusters run one after the other in the same run, each warmed up first; what is
measured several times is given as the median. "CPU of all nodes" is the CPU time of the three
nodes together; resident memory and CPU at rest are those of the node with the most. "Better" says
how many times better kraftlog is than Kafka, and "to reach" is the goal.

The bare server is a program in C, one leader and two followers. The leader writes what it receives
to its file, each follower fetches that and writes it to a file of its own, and the leader
acknowledges what both have written; nothing is checked. The bare server shows what the clients and
this machine allow.
"""


def section_text(results: Mapping[str, Result], old: str) -> str:
    """The whole section: for each task its new table, its old one, or that it is not measured."""
    tables = [HEAD]
    for task in ROWS:
        if task in results and is_measured(results[task]):
            tables.append("\n".join(table(results[task])))
        else:
            tables.append(part(old, TITLES[task]) or f"{heading(task)}\n\n{not_measured(task)}")
    return "\n\n".join([each.rstrip("\n") for each in tables]) + "\n"


def is_measured(result: Result) -> bool:
    """Whether there is a row to compare."""
    rows = ROWS[result.case]
    return any(page.is_comparable(row, result.figures.get(row.key, {})) for row in rows)


def table(result: Result) -> Iterator[str]:
    yield from (heading(result.case), "")
    yield from page.table(ROWS[result.case], result)
    yield ""
    idle = f"before it the machine was {result.idle_before:.0f} % idle."
    yield " ".join([f"`{result.case}`: {result.began} to {result.ended} UTC;", idle, *result.notes])


def heading(task: str) -> str:
    return f"### {TITLES[task]}"


def not_measured(task: str) -> str:
    return f"Not measured: `python -m bench cluster {task}`."

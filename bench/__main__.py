"""`python -m bench [NAME …]`: measure, print, and write docs/generated/performance.md.

A name is a module of `SECTION_TITLES`: its function `cases()` yields (what, figure, unit), and its
section of the page is replaced. Without names everything runs, also the comparisons: `python -m
bench beside [CASE …]` compares with Apache Kafka, `python -m bench cluster [TASK …]` three nodes
with three of Kafka, and `python -m bench spark [TASK …]` the source and sink of Apache Spark with
Spark's own.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING

from bench.beside.command import main as beside
from bench.cluster.command import main as cluster
from bench.page import PAGE, figure_text, write_section
from bench.spark.command import main as spark

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The title of each module's section of the page.
SECTION_TITLES = {
    "wire": "Messages to bytes and back",
    "records": "Record batches",
    "storage": "Logs on disk",
    "node": "Requests",
    "many_partitions": "Requests for many partitions",
    "stalls": "Stalls",
    "connections": "Many requests, many connections",
    "controller": "Decisions about the cluster",
    "groups": "Consumer groups",
    "quorum": "Changes of the cluster",
    "voters": "Changes of the voters",
    "reads": "Reads of metadata in a cluster",
    "simulator": "Simulation",
}


def main(names: list[str]) -> int:
    if names[:1] == ["beside"]:
        return beside(names[1:])
    if names[:1] == ["cluster"]:
        return cluster(names[1:])
    if names[:1] == ["spark"]:
        return spark(names[1:])
    for name in names:
        if name not in SECTION_TITLES:
            print(
                f"no benchmark {name!r}; there are {', '.join(SECTION_TITLES)}, "
                "beside, cluster, spark",
                file=sys.stderr,
            )
            return 2
    for name in names or SECTION_TITLES:
        write_section(SECTION_TITLES[name], run(name))
        print(f"written: {os.path.relpath(PAGE)}")
    if not names:
        if beside([]):
            beside(["--page"])  # from the stored results
        cluster([])
        spark([])
    return 0


def run(name: str) -> str:
    """Run one module; print each figure as it is measured, and return the section."""
    print(f"== {SECTION_TITLES[name]}", flush=True)
    rows = []
    for row in import_module(f"bench.{name}").cases():
        what, figure, unit = row
        print(f"{what:<72}{figure_text(figure):>12} {unit}", flush=True)
        rows.append(row)
    return table(f"{SECTION_TITLES[name]} (`python -m bench {name}`)", rows)


def table(title: str, rows: Iterable[tuple[str, float, str]]) -> str:
    lines = [f"## {title}", "", "| what | figure | unit |", "|---|---:|---|"]
    lines += [f"| {what} | {figure_text(figure)} | {unit} |" for what, figure, unit in rows]
    return "\n".join([*lines, "", machine()])


def machine() -> str:
    processor = platform.machine()
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return (
        f"{datetime.now(UTC):%Y-%m-%d}: {processor}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, Python {platform.python_version()}.\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

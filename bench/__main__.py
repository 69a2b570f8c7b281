"""`python -m bench [night]`: measure every section of docs/generated/performance.md in one night.

    python -m bench NAME …              modules whose function `cases()` yields (what, figure, unit)
    python -m bench beside [CASE …]     kraftlog beside Apache Kafka
    python -m bench cluster [TASK …]    three nodes beside three of Kafka
    python -m bench quorums             the quorum beside etcd, ZooKeeper and Kafka
    python -m bench spark [TASK …]      the source and sink of Apache Spark beside Spark's own
    python -m bench page                only renew what the page says about the age of its sections

Each command replaces its sections of the page; with `--quick` it tries a little of everything, and
writes nothing to the page.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

from bench import stamps
from bench.page import PAGE, figure_text, write_section
from bench.sections import BY_NAME, MODULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Commands with arguments of their own: a function `main` in this module.
COMMANDS = {
    "night": "bench.night",
    "beside": "bench.beside.command",
    "cluster": "bench.cluster.command",
    "quorums": "bench.quorums.command",
    "spark": "bench.spark.command",
}
#: The figures of a module that a trial measures.
QUICK_FIGURES = 2


def main(arguments: Sequence[str]) -> int:
    name, *rest = arguments or ["night"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all processes are stopped
    if name == "page":
        stamps.write_stamps(stamps.load(stamps.STORE))
        return 0
    if name in COMMANDS:
        return int(import_module(COMMANDS[name]).main(rest))
    is_quick = "--quick" in arguments
    names = [each for each in arguments if each != "--quick"]
    modules = [section.name for section in MODULES]
    for each in names:
        if each not in modules:
            there_are = ", ".join([*modules, *COMMANDS, "page"])
            print(f"no benchmark {each!r}; there are {there_are}", file=sys.stderr)
            return 2
    for each in names:
        measure(each, is_quick=is_quick)
    return 0


def measure(name: str, *, is_quick: bool) -> None:
    """Measure a module, and write its section of the page."""
    stamp, start = stamps.begin(), time.perf_counter()
    text = run(name, QUICK_FIGURES if is_quick else None)
    if not is_quick:
        write_section(BY_NAME[name].titles[0], text)
        print(f"written: {os.path.relpath(PAGE)}")
    stamps.finish(name, stamp, time.perf_counter() - start, is_full=not is_quick)


def run(name: str, count: int | None = None) -> str:
    """Run one module; print each figure as it is measured, and return the section.

    With a `count` only its first figures are measured.
    """
    title = BY_NAME[name].titles[0]
    print(f"== {title}", flush=True)
    rows = []
    for row in islice(import_module(f"bench.{name}").cases(), count):
        what, figure, unit = row
        print(f"{what:<72}{figure_text(figure):>12} {unit}", flush=True)
        rows.append(row)
    return table(f"{title} (`python -m bench {name}`)", rows)


def table(title: str, rows: Iterable[tuple[str, float, str]]) -> str:
    lines = [f"## {title}", "", "| what | figure | unit |", "|---|---:|---|"]
    lines += [f"| {what} | {figure_text(figure)} | {unit} |" for what, figure, unit in rows]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m bench spark [TASK …]`: kraftlog on Apache Spark beside Spark's Kafka connector."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.spark_jars import connector_jars

from bench import stamps
from bench.beside import machine
from bench.beside.peers import kraftlog_node, running
from bench.page import PAGE, figure_text, write_section
from bench.spark.page import TITLE, Figure, section_text
from bench.spark.tasks import CONNECTOR, OURS, TASKS, Bench
from bench.spark.topic import fill

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS, QUICK_RECORDS = 5_000_000, 40_000
ROUNDS = 3
TOPIC = "bench"
_SETTINGS = {"spark.driver.memory": "3g"}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench spark", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--quick", action="store_true", help="a little of everything, to try it")
    options = parser.parse_args(arguments)
    for task in options.tasks:
        if task not in TASKS:
            parser.error(f"no task {task!r}; there are {', '.join(TASKS)}")
    try:
        jars = connector_jars()
    except UnavailableError as complaint:
        print(f"spark: {complaint}", file=sys.stderr)
        return 1
    tasks = [task for task in TASKS if task in (options.tasks or TASKS)]
    print(f"== {TITLE} (machine {machine.idle_percent():.0f} % idle)", flush=True)
    stamp, start = stamps.begin(), time.perf_counter()
    figures = measure(tasks, jars, is_quick=options.quick)
    if options.tasks:
        return 0
    if not options.quick:
        write_section(TITLE, section_text(figures))
        print(f"written: {os.path.relpath(PAGE)}")
    stamps.finish("spark", stamp, time.perf_counter() - start, is_full=not options.quick)
    return 0


def measure(tasks: Sequence[str], jars: Sequence[str], *, is_quick: bool) -> dict[str, Figure]:
    """The figures of each task; the formats take turns, and the first turn only warms up."""
    from kraftlog.spark.session import spark_session

    figures = {task: Figure() for task in tasks}
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)
        )
        (node,) = stack.enter_context(running(kraftlog_node(folder)))
        records = fill(node.address, TOPIC, QUICK_RECORDS if is_quick else RECORDS)
        settings = _SETTINGS | {"spark.jars": ",".join(jars)}
        spark = spark_session("bench", master="local[2]", settings=settings)
        stack.callback(spark.stop)
        bench = Bench(spark, node.address, TOPIC, records, folder)
        for task, figure in figures.items():
            for number in range(2 if is_quick else ROUNDS + 1):
                for source in TASKS[task].formats:
                    _measure(task, source, bench, figure if number else Figure(), node.pid)
            _print_figures(task, figure)
    return figures


def _measure(task: str, source: str, bench: Bench, figure: Figure, node: int) -> None:
    cpu_s, begin_s = _spark_cpu_s(node), time.perf_counter()
    rows = TASKS[task].run(bench, source)
    took_s = time.perf_counter() - begin_s
    if TASKS[task].is_time:
        figure.rates.setdefault(source, []).append(took_s)
        return
    figure.rates.setdefault(source, []).append(rows / took_s)
    used_s = _spark_cpu_s(node) - cpu_s
    figure.cpu.setdefault(source, []).append(used_s / rows * 1e6)


def _spark_cpu_s(node: int) -> float:
    """CPU seconds of Spark: this process and its children, also ended ones, without the node."""
    return _tree_cpu_s(os.getpid()) - _tree_cpu_s(node)


def _tree_cpu_s(pid: int) -> float:
    ticks = 0
    for each in machine.process_tree(pid):
        try:
            with open(f"/proc/{each}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended, and its parent has its time
        ticks += sum(map(int, fields[11:15]))  # user and system time, and of reaped children
    return ticks / os.sysconf("SC_CLK_TCK")


def _print_figures(task: str, figure: Figure) -> None:
    for source, rates in figure.rates.items():
        name = "connector" if source == CONNECTOR else OURS
        line = f"{TASKS[task].what:<56}{name:<12}{figure_text(median(rates)):>12}"
        if TASKS[task].is_time:
            print(f"{line} s", flush=True)
        else:
            cpu = figure_text(median(figure.cpu[source]))
            print(f"{line} rows/s{cpu:>10} CPU s per M rows", flush=True)

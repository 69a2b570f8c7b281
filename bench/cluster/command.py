"""`python -m bench cluster [TASK …]`: three nodes of kraftlog beside three of Apache Kafka."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.kafka_jars import kafka_libs, require_java

from bench import stamps
from bench.beside import machine
from bench.beside.command import utc_text
from bench.beside.figures import Result
from bench.beside.plan import Plan
from bench.beside.programs import LIBRARIES, program
from bench.beside.recycled import BEYOND_MB, ROOM_MB
from bench.beside.rows import BARE, KAFKA
from bench.cluster import failures, loads
from bench.cluster.page import is_measured, section_text, table
from bench.cluster.rows import ROWS, TITLE
from bench.cluster.tasks import NEED_PROGRAMS, PEERS, TASKS, three_nodes
from bench.page import PAGE, figure_text, section, write_section

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.cluster.nodes import Cluster

#: What each peer writes besides the measured loads: logs of the warm-up, preallocated blocks,
#: metadata, indexes.
OVERHEAD_BYTES = 3 << 30
FULL = Plan(rounds=3, warm_s=10, rest_s=20)
QUICK = Plan(scale=0.02, rounds=1, warm_s=0, settle_s=0, rest_s=0.5, with_recycling=False)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    plan = QUICK if options.quick else FULL
    peers = [options.peer] if options.peer else PEERS
    tasks = options.tasks or list(TASKS)
    signal.signal(signal.SIGTERM, exit_once)
    try:
        require(tasks, peers)
        require_space(tempfile.gettempdir(), peers, options.tasks, plan)
    except UnavailableError as complaint:
        print(f"cluster: {complaint}", file=sys.stderr)
        return 1
    stamp, start = stamps.begin(), time.perf_counter()
    idle = machine.idle_percent()
    print(f"== {TITLE} (machine {idle:.0f} % idle)", flush=True)
    results = {task: Result(task, idle_before=idle, is_full=plan == FULL) for task in tasks}
    results_of = {peer: [results[task] for task in tasks_of(peer, options.tasks)] for peer in peers}
    try:
        # All files are deleted at the end: ext4 creates files at half the speed for a minute
        # after many were deleted.
        with tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True) as folder:
            failed = [peer for peer in peers if not run_tasks(peer, plan, results_of[peer], folder)]
    finally:
        if not options.peer:
            store(results, stamp, time.perf_counter() - start, is_full=plan == FULL)
    return 1 if failed else 0


def store(
    results: Mapping[str, Result], stamp: stamps.Stamp, seconds: float, *, is_full: bool
) -> None:
    """Write the tables, and store which tasks have been measured with all their peers.

    They share the time in which clusters were started and warmed up.
    """
    if is_full:
        write_tables(results)
    shared_s = (seconds - sum(result.seconds for result in results.values())) / len(results)
    for task, result in results.items():
        if set(result.finished) >= set(TASKS[task].peers):
            began = replace(stamp, began=result.began)
            took_s = result.seconds + shared_s
            stamps.finish(f"cluster {task}", began, took_s, is_full=is_full)


def exit_once(*_: object) -> None:
    """Exit so that all processes are stopped; ignore further signals meanwhile."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench cluster", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument(
        "--peer", choices=PEERS, help="measure only this peer; the page is not written"
    )
    parser.add_argument("--quick", action="store_true", help="a little of everything, to try it")
    options = parser.parse_args(arguments)
    for task in options.tasks:
        if task not in TASKS:
            parser.error(f"no task {task!r}; there are {', '.join(TASKS)}")
    options.tasks = [task for task in TASKS if task in options.tasks]
    return options


def tasks_of(peer: str, named: Sequence[str]) -> list[str]:
    """The tasks to run with a peer: the named ones, or all that do not take minutes."""
    if named:
        return [each for each in named if peer in (*TASKS[each].peers, *TASKS[each].if_named)]
    return [each for each, task in TASKS.items() if peer in task.peers]


def require(tasks: Sequence[str], peers: Sequence[str]) -> None:
    """Check that all required programs exist before anything is measured."""
    if KAFKA in peers:
        require_java()
        kafka_libs()
    if set(NEED_PROGRAMS) & set(tasks):
        for name in LIBRARIES:
            program(name)


def require_space(folder: str, peers: Sequence[str], named: Sequence[str], plan: Plan) -> None:
    """Check that the disk has room for all files, because none is deleted before the end."""
    all_tasks = [task for peer in peers for task in tasks_of(peer, named)]
    needed = sum([loads.written_bytes(task, plan) for task in all_tasks])
    if plan.with_recycling:
        needed += OVERHEAD_BYTES * len(peers)
        needed += (ROOM_MB + BEYOND_MB) * machine.MB if "produce" in all_tasks else 0
    free = machine.free_bytes(folder)
    if free < needed:
        raise UnavailableError(
            f"{folder} has {free / 1e9:.1f} GB free; this needs {needed / 1e9:.1f} GB "
            "(set TMPDIR to use another folder)"
        )


def run_tasks(peer: str, plan: Plan, results: Sequence[Result], folder: str) -> bool:
    """Run a peer's tasks, in a new cluster after a failure; return whether all succeeded."""
    waiting = list(results)
    succeeded = True
    while waiting:
        make_cluster = TASKS[waiting[0].case].cluster
        cluster = make_cluster(peer, tempfile.mkdtemp(prefix=f"{peer}-", dir=folder))
        with cluster.running():
            if make_cluster is three_nodes and peer != BARE:
                loads.warm(cluster, plan)
            while waiting and TASKS[waiting[0].case].cluster is make_cluster:
                if not run_task(waiting.pop(0), cluster, plan):
                    succeeded = False
                    break
    return succeeded


def run_task(result: Result, cluster: Cluster, plan: Plan) -> bool:
    """Run a task and print its figures, or its failure; return whether it succeeded."""
    result.began = result.began or utc_text()
    begin = time.perf_counter()
    print(f"-- {cluster.name}: {result.case}", flush=True)
    try:
        if TASKS[result.case].needs_partitions and not cluster.topics:
            failures.create_partitions(cluster, plan, Result("unmeasured"))
            time.sleep(plan.settle_s)  # the task `partitions` waits too: new logs are flushed
        TASKS[result.case].measure(cluster, plan, result)
        result.finished.append(cluster.name)
    except Exception as error:
        traceback.print_exc()
        print("\n".join(cluster.status_lines()), file=sys.stderr)
        result.notes.append(f"**{cluster.name}: `{result.case}` failed: {type(error).__name__}.**")
        return False
    finally:
        result.ended = utc_text()
        for row in ROWS[result.case]:
            for figure in result.figures.get(row.key, {}).get(cluster.name, ()):
                print(
                    f"{cluster.name:<10}{row.what:<84}{figure_text(figure):>10} {row.unit}",
                    flush=True,
                )
        took_s = time.perf_counter() - begin
        result.seconds += took_s
        print(f"-- {took_s:.0f} s", flush=True)
    return True


def write_tables(results: Mapping[str, Result]) -> None:
    """Print the tables, and put them into the page in place of the earlier ones."""
    write_section(TITLE, section_text(results, section(TITLE)))
    for result in results.values():
        if is_measured(result):
            print("\n".join(table(result)))
    print(f"written: {os.path.relpath(PAGE)}")

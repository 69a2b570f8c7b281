"""`python -m bench cluster`: three nodes of kraftlog beside three of Apache Kafka."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.kafka_jars import kafka_libs, require_java

from bench.beside import machine, page
from bench.beside.command import moment
from bench.beside.figures import Result, stored
from bench.beside.plan import Plan
from bench.beside.programs import program
from bench.beside.rows import KAFKA, PEERS
from bench.cluster import failures, loads
from bench.cluster.nodes import Cluster
from bench.cluster.rows import ROWS, TITLE
from bench.page import rewrite, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: In the order in which they run. The last one leaves a node dead.
TASKS: dict[str, Callable[[Cluster, Plan, Result], None]] = {
    "produce": loads.produce,
    "sync": loads.sync,
    "create": loads.create,
    "partitions": failures.partitions,
    "rest": failures.rest,
    "shutdown": failures.shutdown,
    "kill": failures.kill,
    "controller": failures.controller,
}
NEED_PARTITIONS = ("rest", "shutdown", "kill", "controller")
#: What these clients in C measure.
NEED_PROGRAMS = ("produce", "sync")
FULL = Plan(rounds=3, warm_s=10, rest_s=20)
QUICK = Plan(scale=0.02, rounds=1, warm_s=0, settle_s=0, rest_s=0.5, with_recycling=False)
HEAD = f"""## {TITLE} (`python -m bench cluster`)

Three nodes that are broker and controller each, replication 3, `min.insync.replicas` 2, and the
clients, all on the same cores; Apache Kafka 4.3.1 with the heap and the collector of its own
scripts. The clusters run one after the other in the same run, each warmed first. Produce is by
librdkafka from C to one partition, medians of the rounds; single requests are sent from C over a
plain socket. "CPU" is the time of all three nodes. 100 topics of 100 partitions are created one
after the other. "Moved" is when another node's Metadata has no partition that the ended broker
leads; "every ISR full" when each node's Metadata says so. "Better" and "to reach" are as in the
comparison of single nodes.
"""


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    plan = QUICK if options.quick else FULL
    peers = [options.only] if options.only else PEERS
    tasks = [task for task in TASKS if task in options.rows]
    signal.signal(signal.SIGTERM, stopped)
    try:
        require(tasks, peers)
    except UnavailableError as complaint:
        print(f"cluster: {complaint}", file=sys.stderr)
        return 1
    idle = machine.idle_percent()
    print(f"== {TITLE} (machine {idle:.0f} % idle)", flush=True)
    results = {task: Result(task, idle_before=idle, is_full=plan == FULL) for task in tasks}
    try:
        # Both clusters' files are deleted at the end: ext4 makes files at half the speed for a
        # minute after many were deleted.
        with tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True) as folder:
            failed = [peer for peer in peers if not is_measured(peer, plan, results, folder)]
    finally:
        if plan == FULL and not options.only:
            keep(results)
    return 1 if failed else 0


def stopped(*_: object) -> None:
    """Exit so that all processes are stopped, and undisturbed by a second signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench cluster", description=__doc__)
    parser.add_argument("--only", choices=PEERS, help="one of the two; the page is not written")
    parser.add_argument("--quick", action="store_true", help="a little of everything, to try it")
    parser.add_argument("--rows", default=",".join(TASKS), help=f"some of {', '.join(TASKS)}")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",")
    for row in options.rows:
        if row not in TASKS:
            parser.error(f"no rows {row!r}; there are {', '.join(TASKS)}")
    return options


def require(tasks: Sequence[str], peers: Sequence[str]) -> None:
    """Check that all required programs exist before anything is measured."""
    if KAFKA in peers:
        require_java()
        kafka_libs()
    if set(NEED_PROGRAMS) & set(tasks):
        for name in ("load", "probe", "hold"):
            program(name)


def is_measured(peer: str, plan: Plan, results: Mapping[str, Result], folder: str) -> bool:
    """Run all tasks on a cluster; if one fails, the others go on with another cluster."""
    waiting = list(results.values())
    is_well = True
    while waiting:
        cluster = Cluster(peer, tempfile.mkdtemp(prefix=f"{peer}-", dir=folder))
        with cluster.running():
            if plan.warm_s:
                loads.warm(cluster, plan)
            while waiting:
                if not is_done(waiting.pop(0), cluster, plan):
                    is_well = False
                    break
    return is_well


def is_done(result: Result, cluster: Cluster, plan: Plan) -> bool:
    result.began = result.began or moment()
    try:
        if result.case in NEED_PARTITIONS and not cluster.topics:
            failures.partitions(cluster, plan, Result("unmeasured"))
        TASKS[result.case](cluster, plan, result)
    except Exception as error:
        traceback.print_exc()
        print("\n".join(cluster.state()), file=sys.stderr)
        result.notes.append(f"**{cluster.name}: `{result.case}` failed: {type(error).__name__}.**")
        return False
    finally:
        result.ended = moment()
        for row in ROWS[result.case]:
            for figure in result.figures.get(row.key, {}).get(cluster.name, ()):
                print(f"{cluster.name:<10}{row.what:<66}{shown(figure):>10} {row.unit}", flush=True)
    return True


def keep(results: Mapping[str, Result]) -> None:
    """Store what both have figures for, and write the section of the page."""
    for task, result in results.items():
        if any(each.keys() >= set(PEERS) for each in result.figures.values()):
            result.case = case_of(task)
            result.save()
    found = {task: stored(case_of(task)) for task in TASKS}
    measured = {task: result for task, result in found.items() if result}
    rewrite(TITLE, part(measured))
    print("\n".join(tables(measured)))


def case_of(task: str) -> str:
    """The name of a task's stored result."""
    return f"cluster-{task}"


def part(results: Mapping[str, Result]) -> str:
    """The whole section; it names the tasks that have not been measured."""
    missing = [f"Not measured: `{task}`." for task in TASKS if task not in results]
    return "\n".join([HEAD, *tables(results), "", *missing])


def tables(results: Mapping[str, Result]) -> Iterator[str]:
    """One table of all tasks, and when and how each was measured."""
    whole = Result(
        "cluster", figures={k: v for r in results.values() for k, v in r.figures.items()}
    )
    yield from page.table([row for task in results for row in ROWS[task]], whole)
    yield ""
    for task, result in results.items():
        words = [f"`{task}`: {result.began} to {result.ended} UTC; before it the machine was"]
        yield " ".join([*words, f"{result.idle_before:.0f} % idle.", *result.notes])

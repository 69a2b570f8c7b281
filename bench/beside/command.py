"""`python -m bench beside [CASE …]`: measure, store the results, write a section of the page."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.kafka_jars import kafka_libs, require_java

from bench import stamps
from bench.beside import latency, lifetime, machine, quorum, secured, throughput, tools, workloads
from bench.beside.figures import FOLDER, Result, stored_result
from bench.beside.page import PICTURE, section_text, tables
from bench.beside.picture import picture
from bench.beside.plan import QUICK, Plan
from bench.beside.programs import LIBRARIES, program
from bench.beside.rows import TITLE
from bench.page import section, write_section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: In the order in which they run.
CASES: dict[str, Callable[[Plan, str, Result], None]] = {
    "start": lifetime.start,
    "produce": throughput.produce,
    "consume": throughput.consume,
    "latency": latency.latency,
    "tools": tools.tools,
    "workloads": workloads.workloads,
    "secured": secured.secured,
    "quorum": quorum.quorum,
    "memory": lifetime.memory,
}
DOCS = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "docs", "generated")


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    plan = plan_of(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all processes are stopped
    folder = FOLDER if plan.is_full else os.path.join(FOLDER, "trial")
    try:
        if not options.page:
            require_peers()
    except UnavailableError as complaint:
        print(f"beside: {complaint}", file=sys.stderr)
        return 1
    cases = [] if options.page else options.cases or CASES
    docs = DOCS if plan.is_full else folder
    failed = [case for case in cases if not run_case(case, plan, folder, docs)]
    if options.page:
        write_page(folder, docs)
    return 1 if failed else 0


def run_case(case: str, plan: Plan, folder: str, docs: str) -> bool:
    """Run a case, store its result and write it; return whether it succeeded.

    After a failure the stored result of an earlier run stays.
    """
    stamp, start = stamps.begin(), time.perf_counter()
    try:
        measure(case, plan).save(folder)
    except Exception:
        traceback.print_exc()
        return False
    write_page(folder, docs)
    stamps.finish(f"beside {case}", stamp, time.perf_counter() - start, is_full=plan.is_full)
    return True


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan of these options; unless it is full, results and page go to a folder for trials."""
    plan = QUICK if options.quick else Plan()
    return replace(
        plan,
        load_s=options.load_seconds or plan.load_s,
        rounds=options.rounds or plan.rounds,
        scale=options.scale or plan.scale,
    )


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench beside", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="a little of everything, to try it")
    parser.add_argument(
        "--rounds", type=int, help="number of rounds (5; any other number: a trial)"
    )
    parser.add_argument("--scale", type=float, help="the fraction of the records to send (1)")
    parser.add_argument(
        "--load-seconds", type=float, help="seconds of load before memory is measured (300)"
    )
    parser.add_argument("--page", action="store_true", help="only write the page from results")
    options = parser.parse_args(arguments)
    for case in options.cases:
        if case not in CASES:
            parser.error(f"no case {case!r}; there are {', '.join(CASES)}")
    return options


def require_peers() -> None:
    """Check that all required programs exist before anything is measured."""
    require_java()
    kafka_libs()
    for name in LIBRARIES:
        program(name)


def measure(case: str, plan: Plan) -> Result:
    """Run one case in an empty directory and print its table."""
    result = Result(case, is_full=plan.is_full, idle_before=machine.idle_percent())
    print(f"== {case} (machine {result.idle_before:.0f} % idle)", flush=True)
    result.began = utc_text()
    with tempfile.TemporaryDirectory(prefix="beside-") as folder:
        CASES[case](plan, folder, result)
    result.ended = utc_text()
    print("\n".join(tables(result)))
    print(f"-- {result.began} to {result.ended}", flush=True)
    return result


def utc_text() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"


def results_in(folder: str) -> dict[str, Result]:
    """The latest result of each measured case."""
    stored = {case: stored_result(case, folder) for case in CASES}
    return {case: result for case, result in stored.items() if result}


def write_page(results_folder: str, docs_folder: str) -> None:
    """Write the section of the page and the picture from stored results."""
    results = results_in(results_folder)
    path = os.path.join(docs_folder, "performance.md")
    write_section(TITLE, section_text(results, section(TITLE, path)), path)
    with open(os.path.join(docs_folder, PICTURE), "w", encoding="utf-8") as file:
        file.write(picture(results))
    print(f"written: {os.path.relpath(path)}, {PICTURE}")

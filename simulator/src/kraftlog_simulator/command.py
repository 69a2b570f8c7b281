"""`kraftlog simulate`: run a quorum in virtual time with faults and check invariants."""

from __future__ import annotations

import sys
from collections import Counter

from kraftlog.cli.common import UsageError, run_guarded
from kraftlog.cli.show import print_json
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.workers import begin_worker

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from kraftlog_simulator.run import Outcome

#: How many seeds a process of --jobs gets at once: few, as the last one to end is waited for.
_SEEDS_PER_TASK = 4


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import CommandParser, whole_number

    parser = CommandParser(
        prog="kraftlog simulate",
        description="Run a quorum in virtual time with faults; check invariants after every step.",
    )
    parser.add_argument(
        "--scenario",
        default="mixture",
        metavar="NAME",
        help="default: mixture; any: each seed picks one; cluster: brokers and their clients",
    )
    parser.add_argument("--list", action="store_true", help="list scenarios and faults")
    parser.add_argument(
        "--nodes",
        action="store_true",
        help="whole nodes, with storage and connections, instead of cores alone",
    )
    parser.add_argument("--seed", type=whole_number(), metavar="N", help="default: 1")
    parser.add_argument(
        "--runs", type=whole_number(1), default=1, metavar="N", help="number of consecutive seeds"
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=1, metavar="N", help="processes for the runs"
    )
    parser.add_argument("--faults", metavar="KINDS", help="only these faults, such as loss,pause")
    parser.add_argument(
        "--keep", type=_numbers, metavar="NUMBERS", help="only these entries of the fault plan"
    )
    parser.add_argument("--trace", metavar="FILE", help="write a trace; -: to the terminal")
    parser.add_argument("--html", metavar="FILE", help="write a page that replays the run")
    parser.add_argument(
        "--shrink", action="store_true", help="remove faults that the failure does not need"
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="count rare situations; fail if one never occurs (any, mixture, cluster and "
        "access without --nodes)",
    )
    parser.add_argument(
        "--soak", metavar="DIR", help="run all scenarios until stopped; DIR keeps the progress"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _numbers(text: str) -> list[int]:
    from argparse import ArgumentTypeError

    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"{text}: expected numbers such as 2,5,7") from None


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_guarded("simulate", lambda: _simulate(options))


def _simulate(options: argparse.Namespace) -> int:
    if options.list:
        _list(options)
        return 0
    kinds = options.faults.split(",") if options.faults is not None else None
    _check(options, kinds)
    if options.soak is not None:
        from kraftlog_simulator.soak import Soak

        return Soak(options.soak, options.seed).run()
    first = 1 if options.seed is None else options.seed
    failed = 0
    coverage: Counter[str] = Counter()
    shown: list[dict[str, object]] = []
    for outcome in _outcomes(options, range(first, first + options.runs), kinds):
        failed += outcome.failed
        coverage.update(outcome.coverage)
        if outcome.failed or options.runs == 1:
            if options.json:
                shown.append(_as_json(outcome, options))
            else:
                _print_outcome(outcome, options)
    from kraftlog_simulator.coverage import missing

    never = missing(coverage, "nodes" if options.nodes else options.scenario)
    if options.json:
        data: dict[str, object] = {"runs": options.runs, "failed": failed, "outcomes": shown}
        if options.coverage:
            data |= {"coverage": dict(sorted(coverage.items())), "never_occurred": list(never)}
        print_json(data)
    else:
        if options.runs > 1:
            print(f"{options.runs} runs, {failed} failed")
        if options.coverage:
            _print_coverage(coverage, never)
    return 1 if failed or (options.coverage and never) else 0


def _list(options: argparse.Namespace) -> None:
    from kraftlog_simulator.cluster.faults import ALL_KINDS
    from kraftlog_simulator.run import CLUSTERS, scenarios

    cores, nodes = scenarios(), scenarios(nodes=True)
    without_nodes = [name for name in cores if name not in nodes]
    only_nodes = [name for name in nodes if name not in cores]
    if options.json:
        print_json(
            {
                "scenarios": [*cores, *CLUSTERS],
                "faults": [*ALL_KINDS],
                "not_with_nodes": without_nodes,
                "only_with_nodes": only_nodes,
            }
        )
        return
    print("scenarios:", *cores, *CLUSTERS, "\nfaults:", *ALL_KINDS)
    print("not with --nodes:", *without_nodes)
    print("only with --nodes:", *only_nodes)


def _check(options: argparse.Namespace, kinds: list[str] | None) -> None:
    """Refuse unknown names, and options that do not go together."""
    from kraftlog_simulator.cluster.faults import ALL_KINDS
    from kraftlog_simulator.run import CLUSTERS, scenarios

    unknown = [kind for kind in kinds or () if kind not in ALL_KINDS]
    if unknown:
        raise UsageError(f"--faults {unknown[0]}: unknown, --list prints the faults")
    if options.scenario not in {*scenarios(nodes=options.nodes), "any", *CLUSTERS}:
        raise UsageError(f"--scenario {options.scenario}: unknown, --list prints the scenarios")
    is_cluster = options.scenario in CLUSTERS
    if is_cluster and options.nodes:
        raise UsageError(f"--scenario {options.scenario} always has whole nodes; remove --nodes")
    if (options.nodes or is_cluster) and (options.html is not None or options.soak is not None):
        mode = options.scenario if is_cluster else "--nodes"
        raise UsageError(f"{mode} does not work with --html or --soak")
    if options.html is not None and options.runs != 1:
        raise UsageError("--html shows a single run; remove --runs")
    if options.jobs > 1 and (options.trace, options.html, options.soak) != (None, None, None):
        raise UsageError("--jobs does not work with --trace, --html or --soak; remove it")
    if options.json and options.soak is not None:
        raise UsageError("--soak prints lines while it runs; remove --json")
    if options.json and options.trace == "-":
        raise UsageError("--trace - and --json both write to standard output; give a file")


def _outcomes(
    options: argparse.Namespace, seeds: range, kinds: list[str] | None
) -> Iterator[Outcome]:
    """Run the seeds, with --jobs in other processes; yield the outcomes in the seeds' order."""
    if options.jobs == 1:
        for seed in seeds:
            yield _play(options, kinds, seed)
        return
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(options.jobs, get_context("spawn"), begin_worker)
    try:
        yield from pool.map(partial(_play, options, kinds), seeds, chunksize=_SEEDS_PER_TASK)
    finally:
        pool.shutdown(cancel_futures=True)


def _print_outcome(outcome: Outcome, options: argparse.Namespace) -> None:
    if outcome.failed and options.shrink:
        for fault in outcome.plan:
            print(f"  {fault}")
    print(outcome, flush=True)


def _as_json(outcome: Outcome, options: argparse.Namespace) -> dict[str, object]:
    data: dict[str, object] = {
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "failed": outcome.failed,
        "violation": str(outcome.violation) if outcome.failed else None,
        "steps": outcome.steps,
        "events": outcome.events,
        "time_ms": outcome.time_ms,
        "command": outcome.command,
    }
    if outcome.failed and options.shrink:
        data["faults"] = [str(fault) for fault in outcome.plan]
    return data


def _print_coverage(coverage: Counter[str], never: Sequence[str]) -> None:
    """Print the count of each rare situation, and those that never occurred."""
    for situation in sorted(coverage):
        print(f"{coverage[situation]:>9} {situation}")
    if never:
        print(f"kraftlog simulate: never occurred: {', '.join(never)}", file=sys.stderr)


def _play(options: argparse.Namespace, kinds: list[str] | None, seed: int) -> Outcome:
    """Run one seed with the requested outputs."""
    from kraftlog_simulator.run import scenario_of, simulate
    from kraftlog_simulator.shrink import shrink

    nodes, keep = options.nodes, options.keep
    scenario = scenario_of(seed, nodes=nodes) if options.scenario == "any" else options.scenario
    if options.trace is None:
        outcome = simulate(scenario, seed, kinds=kinds, keep=keep, nodes=nodes)
    elif options.trace == "-":
        outcome = simulate(scenario, seed, kinds=kinds, keep=keep, nodes=nodes, trace=print)
    else:
        with open(options.trace, "w", encoding="utf-8") as file:
            outcome = simulate(
                scenario,
                seed,
                kinds=kinds,
                keep=keep,
                nodes=nodes,
                trace=lambda line: print(line, file=file),
            )
    if outcome.failed and options.shrink:
        outcome = shrink(outcome, kinds, nodes=nodes)
        keep = [fault.number for fault in outcome.plan]
    if options.html is not None:
        from kraftlog_simulator.page.render import play_page

        with open(options.html, "w", encoding="utf-8") as file:
            file.write(play_page(scenario, seed, kinds=kinds, keep=keep))
    return outcome

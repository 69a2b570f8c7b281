"""`kraftlog simulate`: run a quorum in virtual time with faults and check invariants."""

from __future__ import annotations

import sys
from collections import Counter

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.simulator.run import Outcome


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
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
    parser.add_argument("--seed", type=int, metavar="N", help="default: 1")
    parser.add_argument(
        "--runs", type=int, default=1, metavar="N", help="number of consecutive seeds"
    )
    parser.add_argument("--faults", metavar="KINDS", help="only these faults, such as loss,pause")
    parser.add_argument("--keep", metavar="NUMBERS", help="only these entries of the fault plan")
    parser.add_argument("--trace", metavar="FILE", help="write a trace; -: to the terminal")
    parser.add_argument("--html", metavar="FILE", help="write a page that replays the run")
    parser.add_argument(
        "--shrink", action="store_true", help="remove faults that the failure does not need"
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="count rare situations; fail if one never occurs (any, mixture and cluster without "
        "--nodes)",
    )
    parser.add_argument(
        "--soak", metavar="DIR", help="run all scenarios until stopped; DIR keeps the progress"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    from kraftlog.simulator.cluster.faults import ALL_KINDS
    from kraftlog.simulator.run import CLUSTER, scenarios

    if options.list:
        cores, nodes = scenarios(), scenarios(nodes=True)
        print("scenarios:", *cores, CLUSTER, "\nfaults:", *ALL_KINDS)
        print("not with --nodes:", *[name for name in cores if name not in nodes])
        print("only with --nodes:", *[name for name in nodes if name not in cores])
        return 0
    kinds = options.faults.split(",") if options.faults is not None else None
    unknown = [kind for kind in kinds or () if kind not in ALL_KINDS]
    if options.scenario not in {*scenarios(nodes=options.nodes), "any", CLUSTER} or unknown:
        option = f"--faults {unknown[0]}" if unknown else f"--scenario {options.scenario}"
        print(f"kraftlog simulate: unknown {option}; see --list", file=sys.stderr)
        return 2
    is_cluster = options.scenario == CLUSTER
    if is_cluster and options.nodes:
        print(
            "kraftlog simulate: --scenario cluster always has whole nodes; remove --nodes",
            file=sys.stderr,
        )
        return 2
    if (options.nodes or is_cluster) and (options.html is not None or options.soak is not None):
        mode = CLUSTER if is_cluster else "--nodes"
        print(f"kraftlog simulate: {mode} does not work with --html or --soak", file=sys.stderr)
        return 2
    if options.html is not None and options.runs != 1:
        print("kraftlog simulate: --html shows a single run; remove --runs", file=sys.stderr)
        return 2
    if options.soak is not None:
        from kraftlog.cli.soak import Soak

        return Soak(options.soak, options.seed).run()
    first = 1 if options.seed is None else options.seed
    keep = [int(number) for number in options.keep.split(",")] if options.keep else None
    failed = 0
    coverage: Counter[str] = Counter()
    for seed in range(first, first + options.runs):
        outcome = _play(options, seed, kinds, keep)
        failed += outcome.failed
        coverage.update(outcome.coverage)
    if options.runs > 1:
        print(f"{options.runs} runs, {failed} failed")
    expected = "nodes" if options.nodes else options.scenario
    return 1 if failed or (options.coverage and not _all_seen(coverage, expected)) else 0


def _all_seen(coverage: Counter[str], scenario: str) -> bool:
    """Print the count of each rare situation; return whether all of them occurred."""
    from kraftlog.simulator.coverage import missing

    for situation in sorted(coverage):
        print(f"{coverage[situation]:>9} {situation}")
    never = missing(coverage, scenario)
    if never:
        print(f"kraftlog simulate: never occurred: {', '.join(never)}", file=sys.stderr)
    return not never


def _play(
    options: argparse.Namespace, seed: int, kinds: list[str] | None, keep: list[int] | None
) -> Outcome:
    """Run one seed with the requested outputs."""
    from kraftlog.simulator.run import scenario_of, simulate
    from kraftlog.simulator.shrink import shrink

    nodes = options.nodes
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
        for fault in outcome.plan:
            print(f"  {fault}")
        keep = [fault.number for fault in outcome.plan]
    if options.html is not None:
        from kraftlog.simulator.page.render import play_page

        with open(options.html, "w", encoding="utf-8") as file:
            file.write(play_page(scenario, seed, kinds=kinds, keep=keep))
    if outcome.failed or options.runs == 1:
        print(outcome)
    return outcome

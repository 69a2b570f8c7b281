"""`python -m kraftlog.simulator.explorer [--states N] [--seconds N] [part of a name ...]`"""

from __future__ import annotations

import argparse
import sys
import time

from kraftlog.simulator.explorer.bounds import PARTS, Bound
from kraftlog.simulator.explorer.search import Outcome, explore


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Explore every run of the quorum in each bound.")
    parser.add_argument("--states", type=int, default=3_000_000, help="stop a part after so many")
    parser.add_argument("--seconds", type=int, default=1800, help="stop a part after so long")
    parser.add_argument("names", nargs="*", help="parts whose names hold one of these; else all")
    given = parser.parse_args(arguments)
    broken = False
    print(f"{'states':>10} {'transitions':>12} {'depth':>6} {'CPU s':>7}  bound")
    for bound in PARTS:
        if not given.names or any(name in bound.name for name in given.names):
            broken |= bool(_run(bound, given.states, given.seconds).broken)
    return int(broken)


def _run(bound: Bound, max_states: int, seconds: int) -> Outcome:
    start = time.process_time()
    found = explore(bound, max_states, lambda: time.process_time() - start < seconds)
    took = time.process_time() - start
    verdict = "BROKEN" if found.broken else "exhausted" if found.exhausted else "not exhausted"
    print(
        f"{found.states:10} {found.transitions:12} {found.depth:6} {took:7.1f}  "
        f"{bound.name}: {verdict}",
        *found.scenario,
        sep="\n",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

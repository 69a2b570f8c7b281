"""`python -m kraftlog.simulator.explorer [--seconds N] [--whole] [part of a name ...]`"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from kraftlog.simulator.explorer.bounds import PARTS, Bound
from kraftlog.simulator.explorer.search import Outcome, explore


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Explore every run of the quorum in each bound.")
    parser.add_argument(
        "--seconds", type=int, default=3600, help="stop a part after this many seconds"
    )
    parser.add_argument("--whole", action="store_true", help="also fail if a part is not exhausted")
    parser.add_argument("names", nargs="*", help="only parts whose names contain one of these")
    given = parser.parse_args(arguments)
    failed = False
    print(f"{'states':>10} {'transitions':>12} {'depth':>6} {'CPU s':>7} {'MB':>6}  bound")
    for bound in PARTS:
        if not given.names or any(name in bound.name for name in given.names):
            found = _run(bound, given.seconds)
            failed |= bool(found.broken) or (given.whole and not found.exhausted)
    return int(failed)


def _run(bound: Bound, seconds: int) -> Outcome:
    start = time.process_time()
    found = explore(bound, lambda: time.process_time() - start < seconds)
    took = time.process_time() - start
    verdict = "BROKEN" if found.broken else "exhausted" if found.exhausted else "not exhausted"
    print(
        f"{found.states:10} {found.transitions:12} {found.depth:6} {took:7.1f} {_peak_mb():6}  "
        f"{bound.name}: {verdict}",
        *found.scenario,
        sep="\n",
        flush=True,
    )
    return found


def _peak_mb() -> int:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

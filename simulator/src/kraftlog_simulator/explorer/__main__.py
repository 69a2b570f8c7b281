"""`python -m kraftlog_simulator.explorer [--seconds N] [--whole] [part of a name ...]`"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer import bounds
from kraftlog_simulator.explorer.quorum_space import QuorumSpace
from kraftlog_simulator.explorer.replication import bounds as replication
from kraftlog_simulator.explorer.replication.space import ReplicationSpace
from kraftlog_simulator.explorer.search import Outcome, explore

if TYPE_CHECKING:
    from kraftlog_simulator.explorer.search import Space

Bound = bounds.Bound | replication.Bound
BOUNDS: tuple[Bound, ...] = (*bounds.BOUNDS, *replication.BOUNDS)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Explore every run of the quorum, and of a replicated partition, in each bound."
    )
    parser.add_argument(
        "--seconds", type=int, default=3600, help="stop a search after this many CPU seconds"
    )
    parser.add_argument(
        "--whole", action="store_true", help="also fail if a bound is not exhausted"
    )
    parser.add_argument("names", nargs="*", help="only bounds whose names contain one of these")
    options = parser.parse_args(arguments)
    failed = False
    print(f"{'states':>10} {'transitions':>12} {'depth':>6} {'CPU s':>7} {'MB':>6}  bound")
    for bound in BOUNDS:
        if not options.names or any(name in bound.name for name in options.names):
            outcome = _run(bound, options.seconds)
            failed |= bool(outcome.broken) or (options.whole and not outcome.exhausted)
    return int(failed)


def _run(bound: Bound, seconds: int) -> Outcome:
    start = time.process_time()
    outcome = explore(_space(bound), lambda: time.process_time() - start < seconds)
    cpu_seconds = time.process_time() - start
    verdict = "BROKEN" if outcome.broken else "exhausted" if outcome.exhausted else "not exhausted"
    print(
        f"{outcome.states:10} {outcome.transitions:12} {outcome.depth:6} {cpu_seconds:7.1f} "
        f"{_peak_mb():6}  {bound.name}: {verdict}",
        *outcome.trace,
        sep="\n",
        flush=True,
    )
    return outcome


def _space(bound: Bound) -> Space:
    if isinstance(bound, replication.Bound):
        return ReplicationSpace(bound)
    return QuorumSpace(bound)


def _peak_mb() -> int:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

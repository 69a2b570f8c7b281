"""`python -m kraftlog.simulator.explorer [--seconds N] [--whole] [part of a name ...]`"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from kraftlog.simulator.explorer import bounds
from kraftlog.simulator.explorer.quorum_space import QuorumSpace
from kraftlog.simulator.explorer.replication import bounds as replication
from kraftlog.simulator.explorer.replication.space import ReplicationSpace
from kraftlog.simulator.explorer.search import Outcome, explore
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.simulator.explorer.search import Space

Bound = bounds.Bound | replication.Bound
PARTS: tuple[Bound, ...] = (*bounds.PARTS, *replication.PARTS)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Explore every run of the quorum, and of a replicated partition, in each bound."
    )
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
    found = explore(_space(bound), lambda: time.process_time() - start < seconds)
    took = time.process_time() - start
    verdict = "BROKEN" if found.broken else "exhausted" if found.exhausted else "not exhausted"
    print(
        f"{found.states:10} {found.transitions:12} {found.depth:6} {took:7.1f} {_peak_mb():6}  "
        f"{bound.name}: {verdict}",
        *found.trace,
        sep="\n",
        flush=True,
    )
    return found


def _space(bound: Bound) -> Space:
    if isinstance(bound, replication.Bound):
        return ReplicationSpace(bound)
    return QuorumSpace(bound)


def _peak_mb() -> int:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

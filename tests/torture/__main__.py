"""Torture real nodes: three controllers and a broker, one node alone, or a replicating cluster.

    python -m tests.torture --seed 1 --runs 10 --seconds 60
    python -m tests.torture --seed 7 --seconds 60 --alone
    python -m tests.torture --seed 7 --seconds 60 --cluster

A seed decides the faults and their order, but not the timing, so a failure may need several runs to
repeat. The folder of a failed run is kept.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys

from tests.torture.processes import ALONE, CLUSTER, QUORUM
from tests.torture.run import Run, for_seconds

ROOT = os.path.join(".cache", "torture")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run")
    parser.add_argument(
        "--runs", type=int, default=1, help="number of runs; 0: until Ctrl-C or a failure"
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long a run injects faults")
    parser.add_argument("--alone", action="store_true", help="one node, no quorum")
    parser.add_argument(
        "--cluster", action="store_true", help="three nodes that replicate every partition"
    )
    parser.add_argument(
        "--pace", type=float, default=0.05, help="pause of a client between two steps, in seconds"
    )
    options = parser.parse_args()
    failed = 0
    kind = CLUSTER if options.cluster else ALONE if options.alone else QUORUM
    for seed in itertools.count(options.seed):
        if seed == options.seed + options.runs or (failed and not options.runs):
            break
        folder = os.path.join(ROOT, f"{kind}-{seed}")
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{kind} seed {seed} ...", flush=True)
        run = Run(folder, seed, kind, pace_s=options.pace)
        outcome = run.torture(for_seconds(options.seconds))
        print(f"{kind} seed {seed}: {outcome.summary}", flush=True)
        for problem in outcome.problems[:20]:
            print(f"  {problem[:3000]}", flush=True)
        if outcome.problems:
            failed += 1
            print(f"  {len(outcome.problems)} problems; see {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

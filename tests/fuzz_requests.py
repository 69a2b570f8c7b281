"""Runs nodes with plausible random requests for a given time: see tests/node/fuzzed_node.py.

    python -m tests.fuzz_requests --minutes 60 --seed 1000

Each seed is a run of one node with configured voters, of one with voters in its log, or of three
nodes, with one replica of each partition or three. For each kind of failure the first seed is
printed, with the last requests; `--seed N --runs 1` repeats a single run.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from time import monotonic  # noqa: TID251 - a run has a time limit in real time
from traceback import extract_tb, format_exception

from tests.node.fuzzed_node import FuzzedDynamicNode, FuzzedNode
from tests.node.replicating_nodes import ReplicatingNodes
from tests.node.three_nodes import ThreeNodes

NODE_TYPES: tuple[type[FuzzedNode], ...] = (
    FuzzedNode,
    FuzzedDynamicNode,
    ThreeNodes,
    ReplicatingNodes,
)
STEPS = 150
#: How many requests before a failure are printed, and how many characters of each.
LAST_REQUESTS, WIDTH = 5, 1500


def run_seed(seed: int, steps: int) -> tuple[BaseException, list[str]] | None:
    """Run a seed; return its failure and the steps until then, or None."""
    fuzzed = None
    try:
        fuzzed = NODE_TYPES[seed % len(NODE_TYPES)](Random(seed))
        fuzzed.run_steps(steps)
    except Exception as error:
        return error, fuzzed.done if fuzzed is not None else []
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first run")
    parser.add_argument("--runs", type=int, default=sys.maxsize, help="number of runs")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    end = monotonic() + 60 * options.minutes
    seen: set[tuple[str, str, int | None]] = set()
    seed = options.seed
    while monotonic() < end and seed < options.seed + options.runs:
        failure = run_seed(seed, options.steps)
        if failure is not None:
            error, done = failure
            place = extract_tb(error.__traceback__)[-1]
            kind = type(error).__name__, place.filename, place.lineno
            if kind not in seen:
                seen.add(kind)
                print(f"seed {seed}:", "".join(format_exception(error)))
                print(
                    *[f"  > {line[:WIDTH]}" for line in done[-LAST_REQUESTS:]], sep="\n", flush=True
                )
        seed += 1
    print(f"{seed - options.seed} runs, {len(seen)} kinds of failure")
    return bool(seen)


if __name__ == "__main__":
    sys.exit(main())

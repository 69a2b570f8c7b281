"""Runs a mutant: a module with one statement changed, which is loaded instead of the real one.

    python -m tests.mutants.mutant NAME             its pinned run or test; see `main`
    python -m tests.mutants.mutant NAME 1 500 10    500 seeds from 1 on, until 10 kills

Each failing run is printed as a line, whose fields are separated by tabs: scenario, seed,
invariant and outcome. For a test they are its id, 0, how it failed, and the exception. A run that
ends with a bare exception is no kill, as that may have any cause. The last line has the number of
runs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from tests.altered import AlteredFinder
from tests.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.killing import Killer
    from tests.mutants import Mutant

#: Stands for the invariant in the line of a run or test that an unexpected exception ended.
BARE = "exception"
#: The most seeds that `make mutants` runs for a mutant in clusters: its scenario is `cluster`.
CLUSTER_SEEDS = 500
#: The most seeds that `make test` runs for a mutant in clusters, after its pinned one; a mutant
#: that they miss has a test of its own.
TESTED_SEEDS = 100


def main(arguments: list[str]) -> int:
    """Return 0 if the mutant was killed."""
    mutant = MUTANTS[arguments[0]]
    if mutant.test and not (mutant.scenario and arguments[1:]):
        return by_test(mutant)
    sys.meta_path.insert(0, AlteredFinder(mutant.change.module, mutant.change.altered))
    return by_runs(mutant, *map(int, arguments[1:]))


def by_runs(mutant: Mutant, first: int = 0, count: int = 0, max_kills: int = 1) -> int:
    """Play the pinned run, or `count` seeds from `first` on, with the mutant already loaded.

    Any change of the product changes the runs of clusters, so the pinned seed may no longer fail.
    Then the seeds from 1 on are run until one fails, at most TESTED_SEEDS of them.
    """
    from kraftlog_simulator.run import CLUSTERS, scenario_of, simulate

    in_cluster = mutant.scenario in CLUSTERS
    if mutant.nodes or in_cluster:
        import_module("kraftlog_simulator.nodes.world")
    runs = [(mutant.scenario, mutant.seed)]
    keep = mutant.keep
    if in_cluster:
        runs += [(mutant.scenario, seed) for seed in range(1, TESTED_SEEDS + 1)]
    if count:
        keep = ()
        seeds = range(first, first + count)
        runs = [
            (mutant.scenario if in_cluster else scenario_of(seed, nodes=mutant.nodes), seed)
            for seed in seeds
        ]
    played = kills = 0
    for scenario, seed in runs:
        outcome = simulate(
            scenario, seed, kinds=mutant.kinds, keep=keep or None, nodes=mutant.nodes
        )
        keep = ()  # only the pinned run, which is the first, keeps some faults
        played += 1
        if outcome.failed:
            kills += outcome.violation.invariant != BARE
            print(scenario, seed, outcome.violation.invariant, outcome, sep="\t")
        if kills == max_kills:
            break
    assert mutant.change.module in sys.modules, "the simulator does not use this module"
    print(f"{played} runs")
    return 0 if kills else 1


def by_test(mutant: Mutant) -> int:
    from tests.killing import killers

    return verdict(mutant, killers(mutant.change.module, mutant.change.altered, [mutant.test]))


def verdict(mutant: Mutant, all_killers: Sequence[Killer]) -> int:
    """Print the failed tests; return 0 if one has detected the mutant."""
    for killer in all_killers:
        print(mutant.test, 0, BARE if killer.bare else "assertion", killer.bare, sep="\t")
    print("1 runs")
    return 0 if any(not killer.bare for killer in all_killers) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Counts the mutants that the simulator or a test kills: `make mutants`.

    python -m tests.mutants.score [--seeds N] [--kills N] [--pin] [NAME ...]

A mutant runs until it is killed `--kills` times, or for `--seeds` seeds. A mutant in clusters,
whose runs take longer, runs until its first kill, or for 500 seeds. Odd seeds run the mixture, even
ones the named scenarios in turn, as `kraftlog simulate --scenario any` does. `--pin` writes the
first killing run into the mutant's entry, after a change of the simulator that changes the runs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from kraftlog_simulator.run import CLUSTERS
from tests.mutants import HERE, MUTANTS
from tests.mutants.mutant import BARE, CLUSTER_SEEDS

#: The most kills of a mutant in clusters.
CLUSTER_KILLS = 1


class Score(NamedTuple):
    """`kills` are (scenario, seed, invariant), in the order of the seeds; (test, 0, …) for a test.

    `bare` counts the runs that ended with a bare exception: those are no kills.
    """

    name: str
    runs: int
    kills: list[tuple[str, int, str]]
    bare: int

    @property
    def row(self) -> str:
        mutant = MUTANTS[self.name]
        kills_by_invariant = Counter(invariant for _, _, invariant in self.kills)
        invariants = ", ".join(
            f"{invariant} {times}" for invariant, times in kills_by_invariant.items()
        )
        first = "none"
        if self.kills:
            scenario_or_test, seed, _ = self.kills[0]
            first = scenario_or_test if mutant.test else f"{scenario_or_test} {seed}"
            options = f"--faults {mutant.faults}" if mutant.faults else ""
            if mutant.keep and seed == mutant.seed:
                options += f" --keep {','.join(map(str, mutant.keep))}"
            first += f" `{options}`" if options else ""
        if mutant.equivalent and not self.kills:
            first = "equivalent"
        killed = f"{len(self.kills)} of {self.runs}"
        cells = (mutant.says, killed, first, invariants, str(self.bare or ""))
        return f"| `{self.name}` | {' | '.join(cells)} |"


def hunt(name: str, seeds: int, kills: int) -> Score:
    """Run a mutant in its own process, as it is loaded instead of the real module.

    If its pinned run keeps only some faults, that run comes first: few others find the bug.
    """
    mutant = MUTANTS[name]
    if mutant.scenario in CLUSTERS:
        seeds, kills = min(seeds, CLUSTER_SEEDS), min(kills, CLUSTER_KILLS)
    command = [sys.executable, "-m", "tests.mutants.mutant", name]
    if not mutant.keep:
        command += ["1", str(seeds), str(kills)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.stderr:
        raise RuntimeError(f"{name}: {process.stderr}")
    *failing_runs, last = process.stdout.splitlines()
    fields = [line.split("\t") for line in failing_runs]
    killing = [(f[0], int(f[1]), f[2]) for f in fields if f[2] != BARE]
    return Score(name, int(last.split()[0]), killing, len(fields) - len(killing))


def pin(score: Score) -> None:
    """Write the first killing run into the mutant's entry."""
    mutant = MUTANTS[score.name]
    if mutant.test or mutant.equivalent:
        return
    scenario, seed, _ = score.kills[0]
    path = os.path.join(HERE, mutant.file)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(pinned(text, score.name, f"{scenario} {seed}"))


def pinned(text: str, name: str, run: str) -> str:
    """The file of a mutant with this run in its entry."""
    former = re.compile(rf'(^\[{name}\]\n.*?^run = )"[^"]+"', re.DOTALL | re.MULTILINE)
    return former.sub(rf'\1"{run}"', text, count=1)


def summary(scores: list[Score]) -> str:
    """How many of the mutants were killed; the equivalent ones do not count."""
    counted = [score for score in scores if not MUTANTS[score.name].equivalent]
    killed = sum(1 for score in counted if score.kills)
    return f"Killed: {killed} of {len(counted)}. Equivalent: {len(scores) - len(counted)}."


def main(arguments: list[str]) -> int:
    """Return 0 if all mutants were killed, and no equivalent one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.score")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)

    def hunt_and_print(name: str) -> Score:
        score = hunt(name, options.seeds, options.kills)
        print(score.row, flush=True)
        return score

    print("| mutant | bug | killed by | first by | invariant or test | bare |")
    print("|---|---|---|---|---|---|")
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        scores = list(threads.map(hunt_and_print, options.names or MUTANTS))
    for score in scores:
        if options.pin and score.kills:
            pin(score)
    print("", summary(scores), sep="\n")
    unexpected = [s.name for s in scores if bool(s.kills) == bool(MUTANTS[s.name].equivalent)]
    if unexpected:
        print(f"unexpected: {', '.join(unexpected)}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A mutant: a module with one snippet replaced, loaded instead of the real one.

    python -m tests.mutants.mutant NAME [FIRST COUNT [SCENARIO …]]

plays the mutant's pinned run, or so many seeds of each scenario from FIRST on, and says what
killed it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

from tests.altered import AlteredFinder, replaced_once


class Mutant(NamedTuple):
    """`source` stands exactly once in `module`; the run of `scenario` and `seed` must fail."""

    module: str
    source: str
    replacement: str
    scenario: str
    seed: int

    def mutated(self, text: str) -> str:
        return replaced_once(self.module, text, self.source, self.replacement)


def named(name: str) -> Mutant:
    mutant: Mutant = import_module(f"tests.mutants.{name}").MUTANT
    return mutant


def main(words: list[str]) -> int:
    """0 when the mutant was killed."""
    mutant = named(words[0])
    sys.meta_path.insert(0, AlteredFinder(mutant.module, mutant.mutated))
    from kraftlog.simulator.run import simulate
    from kraftlog.simulator.scenarios import SCENARIOS

    assert mutant.module in sys.modules, "the simulator does not use this module"
    runs = [(mutant.scenario, mutant.seed)]
    if len(words) > 1:
        first, count = int(words[1]), int(words[2])
        runs = [
            (name, seed) for seed in range(first, first + count) for name in words[3:] or SCENARIOS
        ]
    for number, (scenario, seed) in enumerate(runs, 1):
        outcome = simulate(scenario, seed)
        if outcome.failed:
            print(f"killed by run {number}: {outcome}")
            return 0
    print(f"survived {len(runs)} runs")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

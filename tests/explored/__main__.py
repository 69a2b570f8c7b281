"""`python -m tests.explored [name ...]`: find each mutant, and print the shortest way to it."""

from __future__ import annotations

import sys

from tests.explored import all_mutants, explored

MAX_STATES = 3_000_000


def main(names: list[str]) -> int:
    alive = []
    for name, mutant in all_mutants().items():
        if names and name not in names:
            continue
        outcome = explored(name, mutant, MAX_STATES)
        print(f"\n{name}: {mutant.rule}\n    {outcome.states} states", *outcome.scenario, sep="\n")
        if not outcome.broken:
            alive.append(name)
    print(f"\nnot found: {', '.join(alive) or 'none'}")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

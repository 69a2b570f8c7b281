"""`python -m tests.explored [name ...]`: explore mutants, and print shortest violating paths."""

from __future__ import annotations

import sys

from tests.explored import all_mutants, explore_mutant, is_as_expected


def main(names: list[str]) -> int:
    surprises = []
    for name, mutant in all_mutants().items():
        if names and name not in names:
            continue
        outcome = explore_mutant(name, mutant)
        print(f"\n{name}: breaks {mutant.breaks}", f"    {outcome.states} states", sep="\n")
        print(*outcome.trace or ["    exhausted: no invariant detects it"], sep="\n", flush=True)
        if not is_as_expected(mutant, outcome):
            surprises.append(name)
    print(f"\nnot as expected: {', '.join(surprises) or 'none'}")
    return int(bool(surprises))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

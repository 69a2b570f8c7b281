"""Deletes each clause and runs the test that must fail: `make clauses`.

    python -m tests.clauses [--pin] [--all] [RULE ...]

With `--pin`, a clause without a test gets the first unit test that fails: those that cite the rule
run first. With `--all` all failing tests are printed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.clauses import HERE, Clause, entry_errors, load
from tests.clauses.runner import NO_END, ClauseRunner
from tests.house_rules import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.killing import Killer

#: The unit tests of the rules: of the quorum, and of replicated partitions (V).
RAFT_TESTS = "tests/raft"
V_TESTS = ("tests/replication", "tests/controller")


class Verdicts:
    """Chooses the tests of each clause, and prints its verdict as soon as they have run."""

    def __init__(self, *, pins: bool, shows_all: bool) -> None:
        self.pins = pins
        self.shows_all = shows_all
        self.survivors = 0

    def choose(self, clause: Clause, tests: list[str]) -> Iterator[list[str]]:
        """The clause's test; without one, the unit tests that cite the rule, then all of them.

        To print all failing tests: the clause's test and all unit tests of its family.
        """
        own = [test for test in tests if test.partition("[")[0] == clause.test]
        folders = V_TESTS if clause.rule.startswith("V") else (RAFT_TESTS,)
        units = [test for test in tests if test.startswith(folders)]
        if self.shows_all:
            yield list(dict.fromkeys([*own, *units]))
        elif clause.test:
            yield own
        else:
            cites = re.compile(rf"::test_(\w+_)?{clause.rule.lower()}[a-f]?_")
            yield [test for test in units if cites.search(test)]
            yield units

    def judge(self, clause: Clause, killers: list[Killer]) -> bool:
        # An exception of the product's own code counts, too: its assertion may have found the bug.
        counted = sorted([killer for killer in killers if killer.bare != NO_END], key=_is_bare)
        if not counted:
            self.survivors += 1
            print(f"{clause.rule} survives: {clause.says}", flush=True)
        elif self.pins:
            pin(clause, counted[0].test.partition("[")[0])
        if self.shows_all:
            print(clause.rule, clause.says, *[f"    {killer}" for killer in killers], sep="\n")
        return bool(counted)


def _is_bare(killer: Killer) -> bool:
    return bool(killer.bare)


def pin(clause: Clause, test: str) -> None:
    """Write the test into the entry of the clause."""
    path = os.path.join(HERE, clause.file)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    line = f'[[{clause.rule}]]\nsays = "{clause.says}"\n'
    assert text.count(line) == 1, f"{clause.rule} says {clause.says!r} more than once"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(line, f'{line}test = "{test}"\n'))


def main(arguments: list[str]) -> int:
    """Return 0 if a test fails for each clause."""
    parser = argparse.ArgumentParser(prog="python -m tests.clauses")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("rules", nargs="*", metavar="RULE")
    options = parser.parse_args(arguments)
    chosen = [
        clause
        for clause in load()
        if clause.change
        and (not options.rules or clause.rule in options.rules)
        and not (options.pin and clause.test)
    ]
    errors = [
        line
        for line in entry_errors(chosen)
        if not options.pin or "has no failing test" not in line
    ]
    if errors:
        print(*errors, sep="\n")
        return 1
    os.chdir(ROOT)
    verdicts = Verdicts(pins=options.pin, shows_all=options.all)
    runner = ClauseRunner(chosen, verdicts.choose, verdicts.judge, runs_all=options.all)
    files = {clause.test.partition("::")[0] for clause in chosen if clause.test}
    folders = {
        folder
        for clause in chosen
        if options.all or not clause.test
        for folder in (V_TESTS if clause.rule.startswith("V") else (RAFT_TESTS,))
    }
    other_files = {file for file in files if not file.startswith(tuple(folders))}
    exit_code = pytest.main(
        ["-q", "-s", "-p", "no:cacheprovider", *sorted(folders | other_files)], plugins=[runner]
    )
    print(f"{len(chosen)} clauses deleted, {verdicts.survivors} survived")
    return 1 if verdicts.survivors or exit_code not in {0, 5} else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Bugs made on purpose: a run of the simulator or a test must find every one.

An entry of a TOML file here, and all of its keys:

    [two_votes]
    says = "what goes wrong, in a sentence"
    rules = ["Q2"]                      # the rules that it breaks, if there are any
    function = "kraftlog.raft.elections:_grants"
    original = "the statement, which is in the function once; its white space does not matter"
    replacement = "what replaces it; it is deleted if this is missing"
    run = "back-to-back 1"              # the run that fails: its scenario and its seed
    nodes = true                        # it is one of whole nodes, as all with clients are
    faults = "crash,pause"              # the kinds of faults of a run in clusters; all if missing
    keep = [3, 5]                       # the faults that the pinned run keeps; all if missing
    test = "tests/raft/test_x.py::test_y"
    equivalent = "why nothing can show it: it has no run, and does not count in the score"

A mutant has a test if no run, or only few, show the bug. If it also has a run, `make mutants`
still counts the runs that find it. The product has no switch for mutants.
"""

from __future__ import annotations

import os
import tomllib
from typing import Any, NamedTuple

from tests.altered import Change

HERE = os.path.dirname(__file__)


class Mutant(NamedTuple):
    """With the change, the run or the test must fail."""

    says: str
    change: Change
    file: str = ""
    rules: tuple[str, ...] = ()
    run: str = ""
    nodes: bool = False
    faults: str = ""
    keep: tuple[int, ...] = ()
    test: str = ""
    equivalent: str = ""

    @property
    def scenario(self) -> str:
        return self.run.partition(" ")[0]

    @property
    def seed(self) -> int:
        return int(self.run.partition(" ")[2] or 0)

    @property
    def kinds(self) -> list[str] | None:
        return self.faults.split(",") if self.faults else None


def _load() -> dict[str, Mutant]:
    found: dict[str, Mutant] = {}
    for file in sorted(name for name in os.listdir(HERE) if name.endswith(".toml")):
        with open(os.path.join(HERE, file), "rb") as toml:
            for name, entry in tomllib.load(toml).items():
                assert name not in found, f"{file} and {found[name].file} have {name}"
                found[name] = _mutant(entry, file)
    return dict(sorted(found.items()))


def _mutant(entry: dict[str, Any], file: str) -> Mutant:
    change = Change(*[entry.pop(key, "") for key in Change._fields])
    entry |= {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    return Mutant(change=change, file=file, **entry)


MUTANTS = _load()

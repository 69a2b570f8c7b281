"""The clauses of the rules, each with its code and the test that fails without it.

The rules are long: a test that cites one may cover only half of it. So each rule is split into
short clauses. For each, an entry of a TOML file here names the code that implements it, the text
after its deletion, and a test that then fails:

    [[Q12]]
    says = "a candidate of an older epoch is refused"
    test = "tests/raft/test_voting.py::test_q12_an_older_epoch_…"
    function = "kraftlog.raft.elections:_grants"
    original = "the statement, which is in the function once; its white space does not matter"
    replacement = "what replaces it; it is deleted if this is missing"

Instead of `function`, `original` and `replacement` there may be `mutant = "NAME"`, if a mutant
breaks the clause already, or `not_deleted = "…"`, the reason why no code can be deleted. `make
clauses` deletes each clause and runs its test; `python -m tests.clauses --pin` finds a test for the
clauses without one.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.altered import Change
from tests.house_rules import ROOT
from tests.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = os.path.dirname(__file__)
FILES = tuple(sorted(name for name in os.listdir(HERE) if name.endswith(".toml")))
KEYS = {"says", *Change._fields, "test", "mutant", "not_deleted"}


class Clause(NamedTuple):
    """`test` is empty while no test is named; without a change, `not_deleted` has the reason."""

    rule: str
    says: str
    test: str
    change: Change | None
    not_deleted: str
    file: str


def load() -> list[Clause]:
    return [clause for file in FILES for clause in _of_file(file)]


def _of_file(file: str) -> Iterator[Clause]:
    with open(os.path.join(HERE, file), "rb") as toml:
        rules = tomllib.load(toml)
    for rule, entries in rules.items():
        for entry in entries:
            yield _clause(rule, entry, file)


def _clause(rule: str, entry: dict[str, Any], file: str) -> Clause:
    unknown = set(entry) - KEYS
    if unknown or "says" not in entry:
        raise ValueError(f"{file}: {rule}: {sorted(unknown) or 'says is missing'}")
    if len({"original", "mutant", "not_deleted"} & set(entry)) != 1:
        raise ValueError(
            f"{file}: {rule}: {entry['says']!r}: one of original, mutant and not_deleted"
        )
    if "mutant" in entry:
        change: Change | None = MUTANTS[entry["mutant"]].change
    elif "original" in entry:
        change = Change(*[entry.get(key, "") for key in Change._fields])
    else:
        change = None
    not_deleted = entry.get("not_deleted", "")
    return Clause(rule, entry["says"], entry.get("test", ""), change, not_deleted, file)


def entry_errors(clauses: list[Clause]) -> Iterator[str]:
    """The mistakes in the entries that show without running a test."""
    for clause in clauses:
        name = f"{clause.file}: {clause.rule}: {clause.says!r}"
        if not clause.change:
            continue
        if not clause.test:
            yield f"{name} has no failing test"
        elif not has_test(clause.test):
            yield f"{name}: there is no {clause.test}"
        try:
            ast.parse(clause.change.altered_file())
        except (OSError, ValueError, SyntaxError) as error:
            yield f"{name}: {error}"


def has_test(node_id: str) -> bool:
    """Whether there is a test with this id."""
    path, _, name = node_id.partition("::")
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return False
    return re.search(rf"^(async )?def {re.escape(name)}\(", text, re.MULTILINE) is not None

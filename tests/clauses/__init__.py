"""The clauses of the rules, each with its code and the test that fails without it.

The rules are long: a test that cites one may cover only half of it. So each rule is split into
short clauses. For each, an entry of a TOML file here names the code that implements it, the text
after its deletion, and a test that then fails:

    [[Q12]]
    says = "a candidate of an older epoch is refused"
    test = "tests/raft/test_voting.py::test_q12_an_older_epoch_…"
    module = "raft.elections"
    original = '''the text, which occurs in the module exactly once'''
    replacement = '''the replacement; empty if this is missing'''

Instead of `module`, `original` and `replacement` there may be `mutant = "NAME"`, if a mutant breaks
the clause already, or `not_deleted = "…"`, the reason why no code can be deleted. `make clauses`
deletes each clause and runs its test; `python -m tests.clauses --pin` finds a test for the clauses
without one.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.altered import replaced_once
from tests.mutants.mutant import load_mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = os.path.dirname(__file__)
ROOT = os.path.dirname(os.path.dirname(HERE))
FILES = tuple(sorted(name for name in os.listdir(HERE) if name.endswith(".toml")))
KEYS = {"says", "test", "module", "original", "replacement", "mutant", "not_deleted"}


class Clause(NamedTuple):
    """`test` is empty while no test is named; `module` is empty if `not_deleted` has the reason."""

    rule: str
    says: str
    test: str
    module: str
    original: str
    replacement: str
    not_deleted: str
    file: str

    def altered(self, text: str) -> str:
        """The module's text without the clause."""
        return replaced_once(self.module, text, self.original, self.replacement)

    @property
    def path(self) -> str:
        """The module's file, from the root of the repository."""
        return f"src/{self.module.replace('.', '/')}.py"


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
    module = entry.get("module", "")
    original, replacement = entry.get("original", ""), entry.get("replacement", "")
    if "mutant" in entry:
        mutant = load_mutant(entry["mutant"])
        module, original, replacement = mutant.module, mutant.source, mutant.replacement
    elif module:
        module = f"kraftlog.{module}"
    return Clause(
        rule,
        entry["says"],
        entry.get("test", ""),
        module,
        original,
        replacement,
        entry.get("not_deleted", ""),
        file,
    )


def entry_errors(clauses: list[Clause]) -> Iterator[str]:
    """The mistakes in the entries that show without running a test."""
    for clause in clauses:
        name = f"{clause.file}: {clause.rule}: {clause.says!r}"
        if clause.not_deleted:
            continue
        if not clause.test:
            yield f"{name} has no failing test"
        elif not has_test(clause.test):
            yield f"{name}: there is no {clause.test}"
        try:
            with open(os.path.join(ROOT, clause.path), encoding="utf-8") as file:
                ast.parse(clause.altered(file.read()))
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


def clauses_table(_: dict[str, str]) -> str:
    """Every clause, the file that implements it, and the test that fails without it."""
    clauses = sorted(load(), key=lambda clause: _order(clause.rule))
    tested = sum(1 for clause in clauses if not clause.not_deleted)
    lines = [f"{len(clauses)} clauses; {tested} are deleted one by one, and a test fails for each."]
    lines += ["", "| rule | clause | implemented by | failing test |", "|---|---|---|---|"]
    for clause in clauses:
        if clause.not_deleted:
            lines.append(f"| {clause.rule} | {clause.says} | | {clause.not_deleted} |")
            continue
        path, test_name = clause.test.split("::")
        code = f"[{clause.module.removeprefix('kraftlog.')}](../../{clause.path})"
        lines.append(f"| {clause.rule} | {clause.says} | {code} | [{test_name}](../../{path}) |")
    return "\n".join(lines)


def _order(rule: str) -> tuple[int, int]:
    return "QPRDV".index(rule[0]), int(rule[1:])

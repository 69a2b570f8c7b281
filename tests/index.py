"""Makes docs/generated/index.md: every rule and every situation, with what proves it.

`rules.toml` and `checklist.toml` say what is required. Tests cite it by its id in their docstrings,
and a rule also at the start of their names (`test_q12_…`). Mutants and clauses name their rules.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from typing import TYPE_CHECKING

from tests.clauses import load as load_clauses
from tests.explored import all_mutants
from tests.house_rules import ROOT
from tests.interop.everyday.clients import CLIENTS, JAVA
from tests.interop.everyday.work import EXPECTED
from tests.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.clauses import Clause
    from tests.mutants import Mutant

PAGE = os.path.join("docs", "generated", "index.md")
#: Where Kafka's own tools and classes, and the clients of others, do the checking.
CLIENT_TESTS = "tests/interop/"

#: Id -> test file -> names of its tests; "" stands for the docstring of a module or class.
Citations = dict[str, dict[str, list[str]]]

INTRO = """\
# What is required, and what proves it

`make docs` makes this page from the tests. **Rules** are five proposals, restated in our words:
Q the quorum (KIP-595), D its description (KIP-836), R changes of its voters (KIP-642), P pre-votes
and reads (KIP-650), V replicated partitions. **Situations** are what the tests of Kafka's own raft,
replication and controller modules check. Where the two differ, the rules are valid.

- *tests* cite the rule or the situation in their docstring (`Q12`, `C70`) or name (`test_q12_…`).
- *with others* are such tests with Kafka's own tools and classes, or with the clients of others.
- A *mutant* breaks the rule on purpose; the run or the test that is named finds it.
- A *clause* is a part of the rule, with the code that keeps it and a test that fails without it.

`make check` fails if a rule or a situation has no test, or if a test cites one that is unknown."""


def _required(file: str) -> dict[str, dict[str, str]]:
    with open(os.path.join(ROOT, "tests", file), "rb") as toml:
        return tomllib.load(toml)


#: Each rule, such as Q12, and its sentence.
RULES = {
    f"{family}{number}": sentence
    for family, rules in _required("rules.toml").items()
    for number, sentence in rules.items()
}
#: The situations in groups: title -> id, such as C70 -> sentence.
CHECKLIST = _required("checklist.toml")
SITUATIONS = {id_: what for group in CHECKLIST.values() for id_, what in group.items()}

#: What no test can check, and what does.
UNTESTED: dict[str, str] = {}

CITATION = re.compile(r"\b([QPRDV]\d+)[a-z]?\b|\b(C\d+)\b")
CITATION_IN_NAME = re.compile(r"test_([qprdv]\d+)[a-z]?_")


def is_test(path: str) -> bool:
    name = os.path.basename(path)
    return path.startswith("tests/") and name.startswith("test_") and name.endswith(".py")


def cited(source: str) -> dict[str, list[str]]:
    """Id -> the names of the tests that cite it in their docstring or, for a rule, in their name.

    For an id in the docstring of a module or class, the name is "".
    """
    found: dict[str, list[str]] = {}
    # Not `house_rules.parsed`, which keeps the trees: collections of garbage would traverse them.
    for node in _documented(ast.parse(source)):
        name = node.name if isinstance(node, ast.FunctionDef) else ""
        ids = ["".join(match) for match in CITATION.findall(ast.get_docstring(node) or "")]
        ids += [rule.upper() for rule in CITATION_IN_NAME.findall(name)]
        for id_ in dict.fromkeys(ids):
            names = found.setdefault(id_, [])
            if name not in names:
                names.append(name)
    return found


def _documented(
    node: ast.Module | ast.ClassDef | ast.FunctionDef,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """The module or class, and the classes and functions in it."""
    yield node
    if not isinstance(node, ast.FunctionDef):
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                yield from _documented(child)


def citations(files: dict[str, str]) -> Citations:
    found: Citations = {}
    for path, text in files.items():
        if is_test(path):
            for id_, names in cited(text).items():
                found.setdefault(id_, {})[path] = names
    return found


def gaps(tests: Citations, required: Iterable[str], untested: Iterable[str]) -> Iterator[str]:
    """What is cited and not required, and what is required and not cited."""
    required = set(required)
    for id_ in sorted(set(tests) - required):
        yield f"{', '.join(tests[id_])}: there is no {id_} in rules.toml or checklist.toml"
    for id_ in sorted((required - set(tests)) ^ set(untested)):
        yield (
            f"{id_}: no test cites it"
            if id_ in required - set(tests)
            else f"{id_} has a test: why UNTESTED?"
        )


def page(files: dict[str, str]) -> str:
    """The page; raises ValueError if it would have gaps."""
    tests, clauses = citations(files), load_clauses()
    if errors := list(gaps(tests, (*RULES, *SITUATIONS), UNTESTED)):
        raise ValueError("\n".join(errors))
    blocks = [INTRO, counts(clauses), "## Rules"]
    for rule, sentence in RULES.items():
        guards = [
            *mutant_lines({n: m for n, m in MUTANTS.items() if rule in m.rules}),
            *explorer_lines(rule),
            *(clause_line(clause) for clause in clauses if clause.rule == rule),
        ]
        proof = test_lines(tests[rule]) if rule in tests else [f"- {UNTESTED[rule]}"]
        blocks.append(block(rule, sentence, [*proof, *guards]))
    blocks += ["## Mutants of no rule"]
    blocks += ["\n".join(mutant_lines({n: m for n, m in MUTANTS.items() if not m.rules}))]
    for title, group in CHECKLIST.items():
        blocks += [f"## Situations: {title}"]
        blocks += [block(id_, what, test_lines(tests[id_])) for id_, what in group.items()]
    blocks += ["## The clients of others", clients_table(files)]
    return "\n\n".join(blocks) + "\n"


def counts(clauses: list[Clause]) -> str:
    with_code = sum(1 for clause in clauses if clause.change)
    return (
        f"{len(RULES)} rules, {len(SITUATIONS)} situations, {len(MUTANTS)} mutants, "
        f"{len(clauses)} clauses of which {with_code} have code of their own."
    )


def block(id_: str, sentence: str, lines: Iterable[str]) -> str:
    return "\n".join([f"### {id_}", "", sentence, "", *lines])


def test_lines(tests: dict[str, list[str]]) -> Iterator[str]:
    for title, with_others in (("tests", False), ("with others", True)):
        links = [
            link(path, names)
            for path, names in tests.items()
            if path.startswith(CLIENT_TESTS) == with_others
        ]
        if links:
            yield f"- {title}: {'; '.join(links)}"


def link(path: str, names: Iterable[str] = ()) -> str:
    """A link to a file of the tests or the source, with the names of tests in it."""
    tests = ", ".join(f"`{name}`" for name in names if name)
    target = f"[{path.removeprefix('tests/').removeprefix('src/')}](../../{path})"
    return f"{target}: {tests}" if tests else target


def test_link(node_id: str) -> str:
    path, _, name = node_id.partition("::")
    return link(path, [name])


def mutant_lines(mutants: dict[str, Mutant]) -> Iterator[str]:
    for name, mutant in mutants.items():
        if mutant.equivalent:
            found_by = f"equivalent: {' '.join(mutant.equivalent.split())}"
        else:
            found_by = f"found by {test_link(mutant.test) if mutant.test else mutant.run}"
        yield f"- mutant `{name}`: {mutant.says}; {found_by}"


def explorer_lines(rule: str) -> Iterator[str]:
    for name, mutant in all_mutants().items():
        rules, _, bug = mutant.breaks.partition(": ")
        if rule in re.findall(r"\w+", rules):
            invariant = f"the invariant “{mutant.detected_by}” finds it"
            found_by = invariant if mutant.detected_by else "no invariant finds it, as expected"
            yield f"- mutant `{name}` for the explorer: {bug}; {found_by}"


def clause_line(clause: Clause) -> str:
    if not clause.change:
        return f"- clause: {clause.says}; {clause.not_deleted}"
    return f"- clause: {clause.says}; {link(clause.change.path)}, {test_link(clause.test)}"


def clients_table(files: dict[str, str]) -> str:
    """Every client, its version, and which pieces of the everyday work it does."""
    pieces = list(EXPECTED)
    lines = [f"| client | language | version | {' | '.join(pieces)} |"]
    lines += ["|" + "---|" * (len(pieces) + 3)]
    for client in (*CLIENTS, JAVA):
        done = ["yes" if p not in client.lacks else "in part" for p in pieces]
        cells = [client.name, client.language, client.version(files), *done]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)

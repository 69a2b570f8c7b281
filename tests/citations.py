"""The rules that tests cite in their names and docstrings."""

from __future__ import annotations

import ast
import os
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _rules() -> dict[str, str]:
    """Each rule, such as Q12, and its sentence."""
    with open(os.path.join(os.path.dirname(__file__), "rules.toml"), "rb") as file:
        families = tomllib.load(file)
    return {
        f"{family}{number}": sentence
        for family, rules in families.items()
        for number, sentence in rules.items()
    }


#: By family: Q the quorum, P pre-votes and reads, R voter changes, D describing the quorum,
#: V replicated partitions. docs/generated/rules.md introduces them.
RULES = _rules()


def is_test(path: str) -> bool:
    name = os.path.basename(path)
    return path.startswith("tests/") and name.startswith("test_") and name.endswith(".py")


def documented(source: str) -> Iterator[tuple[str, str]]:
    """Each function's name and docstring; the docstring of a module or class has the name ""."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            name = node.name if isinstance(node, ast.FunctionDef) else ""
            yield name, ast.get_docstring(node) or ""


def link_with_names(path: str, names: Iterable[str]) -> str:
    """A link to a test file, and the names of tests in it, for a table in docs/."""
    tests = ", ".join(f"`{name}`" for name in names if name)
    link = f"[{path.removeprefix('tests/')}](../../{path})"
    return f"{link}: {tests}" if tests else link

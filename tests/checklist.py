"""The behaviour that is required of replicas and of the controller, and the tests of each item.

`checklist.toml` has the items. An item without a test is an error.
"""

from __future__ import annotations

import os
import re
import tomllib

from tests.citations import documented, is_test, link_with_names
from tests.house_rules import ROOT

ITEMS = os.path.join(ROOT, "tests", "checklist.toml")
CITATION = re.compile(r"\b(C\d+)\b")


def checklist_table(files: dict[str, str], items: dict[str, dict[str, str]] | None = None) -> str:
    """Every item with its tests, in groups."""
    groups = items if items is not None else load()
    cells = citing_tests(files)
    all_items = {item for group in groups.values() for item in group}
    refuse_gaps(all_items, cells)
    lines = [f"{len(all_items)} items, each with its tests."]
    for title, group in groups.items():
        lines += ["", f"## {title}", "", "| | what | tests |", "|---|---|---|"]
        for item, what in group.items():
            lines.append(f"| {item} | {what} | {'<br>'.join(cells[item])} |")
    return "\n".join(lines)


def load() -> dict[str, dict[str, str]]:
    with open(ITEMS, "rb") as file:
        return tomllib.load(file)


def citing_tests(files: dict[str, str]) -> dict[str, list[str]]:
    """Item -> links to the files that cite it, with the names of their tests."""
    cells: dict[str, list[str]] = {}
    for path, text in files.items():
        if not is_test(path):
            continue
        in_file: dict[str, list[str]] = {}
        for name, docstring in documented(text):
            for item in CITATION.findall(docstring):
                in_file.setdefault(item, []).append(name)
        for item, names in in_file.items():
            cells.setdefault(item, []).append(link_with_names(path, dict.fromkeys(names)))
    return cells


def refuse_gaps(items: set[str], cells: dict[str, list[str]]) -> None:
    """Raise an error for items without a test, and for unknown items."""
    unknown = sorted(set(cells) - items)
    if unknown:
        raise ValueError(f"checklist.toml has no item {unknown[0]}")
    missing = sorted(items - set(cells))
    if missing:
        raise ValueError(f"the checklist has items without a test: {', '.join(missing)}")

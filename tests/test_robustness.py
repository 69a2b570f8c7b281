"""The pages of failures and accidents name tests that exist, for every row and accident."""

from __future__ import annotations

import os
import re

from tests.house_rules import ROOT

NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def named_tests(page: str) -> list[tuple[str, str]]:
    return NAMED.findall(page)


def has_test(file: str, name: str) -> bool:
    path = os.path.join(ROOT, "tests", file)
    if not os.path.exists(path):
        return False
    with open(path) as source:
        return f"\ndef {name}(" in source.read()


def test_every_row_names_an_existing_test() -> None:
    with open(os.path.join(ROOT, "docs", "understand", "robustness.md")) as page:
        text = page.read()
    named = named_tests(text)
    assert len(named) > 40
    assert [test for test in named if not has_test(*test)] == []
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| event |" not in line]
    assert [row for row in rows if not named_tests(row)] == []


def test_every_accident_names_an_existing_test() -> None:
    with open(os.path.join(ROOT, "docs", "operate", "accidents.md")) as page:
        accidents = page.read().split("\n### ")[1:]
    assert len(accidents) > 10
    assert [test for each in accidents for test in named_tests(each) if not has_test(*test)] == []
    assert [each.splitlines()[0] for each in accidents if not named_tests(each)] == []


def test_a_missing_test_is_reported() -> None:
    assert has_test("test_robustness.py", "has_test")
    assert not has_test("test_robustness.py", "nothing_of_that_name")
    assert not has_test("no_such_file.py", "has_test")

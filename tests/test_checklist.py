"""The checklist: its table names every item, and what is missing or superfluous is an error."""

from __future__ import annotations

import pytest

from tests.checklist import checklist_table

ITEMS = {"start": {"C1": "it starts", "C2": "it goes on"}, "end": {"C3": "it ends"}}
TEST = '''
def test_a():
    """Starts. C1, C2."""
def test_b():
    """C2, not AC3 nor C."""
'''
FILES = {"tests/raft/test_x.py": TEST, "tests/other.py": '"""C3."""'}
WAITING = {"host": {"C3": "there is no host"}}


def test_every_item_is_shown_with_its_tests_or_what_it_waits_for() -> None:
    table = checklist_table(FILES, {**ITEMS, **WAITING})
    assert "2 of 3 items have tests; 1 wait for the host." in table
    link = "[raft/test_x.py](../tests/raft/test_x.py)"
    assert f"| C1 | it starts | {link}: `test_a` |" in table
    assert f"| C2 | it goes on | {link}: `test_a`, `test_b` |" in table
    assert "| C3 | it ends | none yet, by the host: there is no host |" in table
    assert table.index("## start") < table.index("## end")


def test_an_item_without_a_test_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a test: C3"):
        checklist_table(FILES, ITEMS)


def test_an_item_that_is_tested_waits_no_longer() -> None:
    with pytest.raises(ValueError, match="C1 has a test now"):
        checklist_table(FILES, {**ITEMS, "host": {"C1": "no", "C3": "no"}})


@pytest.mark.parametrize("items", [{"start": ITEMS["start"]}, {**ITEMS, "host": {"C9": "no"}}])
def test_an_unknown_item_is_an_error(items: dict[str, dict[str, str]]) -> None:
    cites_three = {"tests/test_y.py": '"""C3."""'}
    with pytest.raises(ValueError, match=r"has no item C[39]"):
        checklist_table({**FILES, **cites_three}, items)

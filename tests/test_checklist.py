"""The checklist: its table has every item; a missing test or unknown item is an error."""

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
LAST = '''
def test_c():
    """C3."""
'''
FILES = {"tests/raft/test_x.py": TEST, "tests/other.py": '"""C3."""'}
ALL = {**FILES, "tests/raft/test_z.py": LAST}


def test_every_item_is_shown_with_its_tests() -> None:
    table = checklist_table(ALL, ITEMS)
    assert "3 items, each with its tests." in table
    link = "[raft/test_x.py](../../tests/raft/test_x.py)"
    assert f"| C1 | it starts | {link}: `test_a` |" in table
    assert f"| C2 | it goes on | {link}: `test_a`, `test_b` |" in table
    assert table.index("## start") < table.index("## end")


def test_an_item_without_a_test_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a test: C3"):
        checklist_table(FILES, ITEMS)


def test_an_unknown_item_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no item C3"):
        checklist_table(ALL, {"start": ITEMS["start"]})

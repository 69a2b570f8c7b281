"""Generated tables of the docs: their content, and the check for outdated ones."""

from __future__ import annotations

import re

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.api_table import SERVED
from tests import docs
from tests.house_rules import repository


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no function makes"):
        docs.with_new_tables("<!-- made by make docs: nonsense -->\n<!-- end -->", {})


def test_a_table_names_every_api_that_is_served_and_no_other() -> None:
    rows = docs.apis_table({}).splitlines()[2:]
    assert len(rows) == len(SERVED)
    assert rows[0].startswith("| Produce | 0 | 0-13 | brokers | [produce/handler.py](")
    assert not any("AddPartitionsToTxn" in row for row in rows)


def test_only_an_outdated_table_is_reported() -> None:
    old = "before\n<!-- made by make docs: apis -->\nold\n<!-- end -->\nafter\n"
    [(path, new)] = docs.outdated({"docs/a.md": old, "docs/b.md": "no table"})
    assert path == "docs/a.md"
    assert new.startswith("before\n<!-- made by")
    assert new.endswith("<!-- end -->\nafter\n")
    assert "\nold\n" not in new
    assert list(docs.outdated({"docs/a.md": new})) == []


TROUBLE = r"""
| message | cause |
|---|---|
| `disk … is full: …`, or `…` | a \| b |

| error | cause |
|---|---|
| NONE | nothing |
"""


def test_messages_are_read_from_a_page_and_found_across_literals() -> None:
    assert docs.first_cells(TROUBLE, "message") == ["`disk … is full: …`, or `…`"]
    assert docs.first_cells(TROUBLE, "error") == ["NONE"]
    source = 'f"disk {path} is "\n    f"full: {why}"'
    assert docs.unknown_messages(["disk … is full: …"], [source]) == []
    for wrong in ("disk … was full", "full: … is"):
        assert docs.unknown_messages([wrong], [source]) == [wrong]


def test_quoted_messages_of_troubleshooting_are_in_the_source() -> None:
    """The first quote of each row, with enough constant text to be found in a log."""
    files = repository()
    page = files["docs/operate/troubleshooting.md"]
    quotes = [cell.split("`")[1] for cell in docs.first_cells(page, "message")]
    quotes += re.findall(r"`([^`]*…[^`]*)`", page)
    sources = [text for path, text in files.items() if path.startswith("src/kraftlog/")]
    assert docs.unknown_messages(quotes, sources) == []
    codes = {name for cell in docs.first_cells(page, "error") for name in cell.split(", ")}
    assert not codes - set(dir(ErrorCode))

"""Generated tables of the docs: their content, and the check for outdated ones."""

from __future__ import annotations

import re

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.api_table import SERVED
from tests import docs
from tests.citations import RULES, is_test
from tests.house_rules import repository

SOURCE = '''"""Elections: Q9 and Q10a."""
class TestVotes:
    """Only V4."""
    def test_q12_grants(self):
        """Also R3; (P4)."""
    def test_v2_leads(self):
        """As in version 2 of Q12."""
def test_p1():
    """No rule: UTF8, Q, xQ5, and no `_` after p1."""
'''


def test_rules_are_read_from_names_and_docstrings() -> None:
    # "" stands for the docstring of a module or class.
    assert docs.cited_rules(SOURCE) == {
        "Q9": [""],
        "Q10": [""],
        "V4": [""],
        "V2": ["test_v2_leads"],
        "R3": ["test_q12_grants"],
        "P4": ["test_q12_grants"],
        "Q12": ["test_q12_grants", "test_v2_leads"],
    }


def test_a_table_names_every_rule_and_its_tests() -> None:
    table = docs.rules_table({"tests/raft/test_votes.py": SOURCE, "tests/other.py": '"""Q38"""'})
    assert "7 of 91 rules" in table
    votes = "[raft/test_votes.py](../../tests/raft/test_votes.py)"
    assert f"| Q9 | {RULES['Q9']} | {votes} |" in table
    assert f"| R3 | {RULES['R3']} | {votes}: `test_q12_grants` |" in table
    assert f"| Q38 | {RULES['Q38']} | none yet |" in table


def test_an_unknown_rule_or_table_is_refused() -> None:
    with pytest.raises(ValueError, match="Q39, which is no rule"):
        docs.rules_table({"tests/test_a.py": '"""Q39."""'})
    with pytest.raises(ValueError, match="no function makes"):
        docs.with_new_tables("<!-- made by make docs: nonsense -->\n<!-- end -->", {})


def test_a_table_names_every_api_that_is_served_and_no_other() -> None:
    rows = docs.apis_table({}).splitlines()[2:]
    assert len(rows) == len(SERVED)
    assert rows[0].startswith("| Produce | 0 | 0-13 | brokers | [produce/handler.py](")
    assert not any("AddPartitionsToTxn" in row for row in rows)


def test_only_an_outdated_table_is_reported() -> None:
    old = "before\n<!-- made by make docs: rules -->\nold\n<!-- end -->\nafter\n"
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


#: The rules that a test of the simulator or with real processes may still lack.
NOT_YET_CITED = {"V19", "V20", "V21", "V22", "V23", "V24"}


@pytest.mark.parametrize(
    "folders", [("tests/simulator/",), ("tests/server/", "tests/interop/", "tests/cli/")]
)
def test_every_replication_rule_is_cited_by_simulator_and_process_tests(
    folders: tuple[str, ...],
) -> None:
    """V rules are cited by tests of the simulator, and by tests with real processes."""
    cited = {
        rule
        for path, text in repository().items()
        if is_test(path) and path.startswith(folders)
        for rule in docs.cited_rules(text)
    }
    assert not {rule for rule in RULES if rule.startswith("V")} - cited - NOT_YET_CITED

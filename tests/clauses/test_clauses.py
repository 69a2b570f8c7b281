"""The list of clauses is valid: each text occurs once, each test exists, each rule has clauses.

`make clauses` deletes each clause and runs its test: that is not part of `make test`.
"""

from __future__ import annotations

import pytest

from tests.citations import RULES
from tests.clauses import Clause, _clause, clauses_table, entry_errors, has_test, load


def test_every_clause_has_its_code_and_its_test() -> None:
    assert list(entry_errors(load())) == []


def test_every_rule_of_the_quorum_has_clauses_or_a_reference() -> None:
    rules = {rule for rule in RULES if rule[0] in "QPRD"}
    assert {clause.rule for clause in load()} == rules


def test_no_clause_is_repeated() -> None:
    outcome = [(clause.rule, clause.says) for clause in load()]
    assert len(set(outcome)) == len(outcome)


def test_no_clause_was_lost() -> None:
    assert len([clause for clause in load() if not clause.elsewhere]) >= 330


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({}, "says is missing"),
        ({"says": "a", "elsewhere": "b", "mutant": "two_votes"}, "one of cut, mutant"),
        ({"says": "a", "cut": "b", "kut": "c"}, "kut"),
    ],
)
def test_an_invalid_entry_is_refused(entry: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        _clause("Q1", entry, "quorum.toml")


def test_missing_texts_and_missing_tests_are_found() -> None:
    gone = Clause(
        "Q1", "a", "tests/x.py::test_y", "kraftlog.raft.core", "no such text", "", "", "f"
    )
    (no_test, no_text) = entry_errors([gone])
    assert "there is no tests/x.py::test_y" in no_test
    assert "0 times" in no_text
    assert next(entry_errors([gone._replace(dies="")])).endswith("has no failing test")


def test_a_test_is_found_by_its_full_name() -> None:
    here = "tests/clauses/test_clauses.py"
    assert has_test(f"{here}::test_a_test_is_found_by_its_full_name")
    assert not has_test(f"{here}::test_a_test_is_found")


def test_the_table_shows_every_clause() -> None:
    assert clauses_table({}).count("\n| ") == len(load()) + 1

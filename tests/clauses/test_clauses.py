"""The list of clauses is valid: each text occurs once, each test exists, each rule has clauses.

`make clauses` deletes each clause and runs its test: that is not part of `make test`.
"""

from __future__ import annotations

import pytest

from tests.altered import Change
from tests.clauses import Clause, _clause, entry_errors, has_test, load
from tests.index import RULES


def test_every_clause_has_its_code_and_its_test() -> None:
    assert list(entry_errors(load())) == []


def test_every_rule_has_an_entry() -> None:
    rules = {clause.rule for clause in load()}
    assert rules == set(RULES)


def test_no_clause_is_repeated() -> None:
    names = [(clause.rule, clause.says) for clause in load()]
    assert len(set(names)) == len(names)


def test_no_clause_was_lost() -> None:
    assert len([clause for clause in load() if clause.change]) >= 430


@pytest.mark.parametrize(
    ("entry", "error_text"),
    [
        ({}, "says is missing"),
        ({"says": "a", "not_deleted": "b", "mutant": "two_votes"}, "one of original, mutant"),
        ({"says": "a", "original": "b", "orignal": "c"}, "orignal"),
    ],
)
def test_an_invalid_entry_is_refused(entry: dict[str, str], error_text: str) -> None:
    with pytest.raises(ValueError, match=error_text):
        _clause("Q1", entry, "quorum.toml")


def test_missing_texts_and_missing_tests_are_found() -> None:
    change = Change("kraftlog.raft.core:RaftCore.handle", "no such text")
    clause = Clause("Q1", "a", "tests/x.py::test_y", change, "", "f")
    (no_test, no_text) = entry_errors([clause])
    assert "there is no tests/x.py::test_y" in no_test
    assert "0 times" in no_text
    assert next(entry_errors([clause._replace(test="")])).endswith("has no failing test")


def test_a_test_is_found_by_its_full_name() -> None:
    here = "tests/clauses/test_clauses.py"
    assert has_test(f"{here}::test_a_test_is_found_by_its_full_name")
    assert not has_test(f"{here}::test_a_test_is_found")

"""The index of rules and situations: complete, and it shows whatever proves each of them."""

from __future__ import annotations

import pytest

from tests import index
from tests.clauses import load
from tests.explored import all_mutants
from tests.house_rules import broken_links, repository
from tests.interop.everyday.clients import CLIENTS
from tests.mutants import MUTANTS

SOURCE = '''"""Elections: Q9 and Q10a."""
class TestVotes:
    """Only V4."""
    def test_q12_grants(self):
        """Also R3; (P4). C1, C20."""
    def test_v2_leads(self):
        """As in version 2 of Q12; C1."""
def test_p1():
    """No rule: UTF8, Q, xQ5, AC3, C, and no `_` after p1."""
'''


def test_citations_are_read_from_names_and_docstrings() -> None:
    # "" stands for the docstring of a module or class.
    assert index.cited(SOURCE) == {
        "Q9": [""],
        "Q10": [""],
        "V4": [""],
        "V2": ["test_v2_leads"],
        "R3": ["test_q12_grants"],
        "P4": ["test_q12_grants"],
        "Q12": ["test_q12_grants", "test_v2_leads"],
        "C1": ["test_q12_grants", "test_v2_leads"],
        "C20": ["test_q12_grants"],
    }


def test_only_tests_cite() -> None:
    files = {"tests/raft/test_votes.py": '"""Q9"""', "tests/other.py": '"""Q38"""'}
    assert index.citations(files) == {"Q9": {"tests/raft/test_votes.py": [""]}}


@pytest.mark.parametrize(
    ("required", "untested", "errors"),
    [
        (["Q9"], [], []),
        (["Q9", "C1"], ["C1"], []),
        (["Q9", "C1"], [], ["C1: no test cites it"]),
        (["Q9"], ["Q9"], ["Q9 has a test: why UNTESTED?"]),
        ([], [], ["tests/test_a.py: there is no Q9 in rules.toml or checklist.toml"]),
    ],
)
def test_a_gap_is_found(required: list[str], untested: list[str], errors: list[str]) -> None:
    assert list(index.gaps({"Q9": {"tests/test_a.py": [""]}}, required, untested)) == errors


def test_a_page_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="Q1: no test cites it"):
        index.page({"tests/test_a.py": '"""Q2."""'})


def test_the_page_shows_what_proves_each_rule_and_situation() -> None:
    """Every rule and situation has a test, and every mutant, clause and client has a line."""
    files = repository()
    page = index.page(files)
    assert list(broken_links({index.PAGE: page}, files)) == []
    blocks = dict(block.split("\n\n", 1) for block in page.split("\n### ")[1:])
    assert list(blocks) == [*index.RULES, *index.SITUATIONS]
    for id_, sentence in {**index.RULES, **index.SITUATIONS}.items():
        assert blocks[id_].startswith(f"{sentence}\n\n- "), id_
    for name, mutant in MUTANTS.items():
        for rule in mutant.rules:
            assert f"- mutant `{name}`: {mutant.says}; " in blocks[rule]
        assert f"- mutant `{name}`" in page
    for name, broken in all_mutants().items():
        assert f"- mutant `{name}` for the explorer: " in page
        assert broken.breaks.partition(": ")[2] in page
    for clause in load():
        assert f"- clause: {clause.says}; " in blocks[clause.rule]
    assert "[raft/test_voting.py](../../tests/raft/test_voting.py): `test_q12_" in blocks["Q12"]
    assert "- with others: [interop/" in blocks["Q14"]
    assert not [client.name for client in CLIENTS if f"\n| {client.name} | " not in page]


#: The rules that a test of the simulator or with real processes may still lack.
NOT_YET_CITED = {"V19", "V20", "V21", "V22", "V23", "V24"}


@pytest.mark.parametrize(
    "folders", [("tests/simulator/",), ("tests/server/", "tests/interop/", "tests/cli/")]
)
def test_every_replication_rule_is_cited_by_simulator_and_process_tests(
    folders: tuple[str, ...],
) -> None:
    """V rules are cited by tests of the simulator, and by tests with real processes."""
    files = {path: text for path, text in repository().items() if path.startswith(folders)}
    rules = {rule for rule in index.RULES if rule.startswith("V")}
    assert not rules - set(index.citations(files)) - NOT_YET_CITED

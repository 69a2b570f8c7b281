"""What expressions match, and their limits; test_against_re2j.py compares with Kafka's library."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.groups.subscription_regex import pattern as pattern_module
from kraftlog.groups.subscription_regex.pattern import TopicPattern
from kraftlog.groups.subscription_regex.syntax import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_SIZE,
    PatternError,
)
from kraftlog.steps import result_of

NAMES = ("orders", "orders-1", "orders.eu", "Orders", "my.orders", "payments", "_internal", "k")

MATCHES = {
    "orders": {"orders"},
    "orders.*": {"orders", "orders-1", "orders.eu"},
    "(?i)ORDERS": {"orders", "Orders"},
    "orders|payments": {"orders", "payments"},
    "^orders$": {"orders"},
    "order": set(),
    "": set(),
    ".*\\borders": {"orders", "my.orders"},
    ".*\\Borders": set(),
    "\\w+": {"orders", "Orders", "payments", "_internal", "k"},
    "[^._-]*": {"orders", "Orders", "payments", "k"},
    "[[:lower:].]{9}": {"orders.eu", "my.orders"},
    "\\Qmy.o\\E.*": {"my.orders"},
    "(?i)\\x{212a}": {"k"},
    "\\p{Lu}.*": {"Orders"},
    "(?P<area>my)\\.(?<rest>.*)": {"my.orders"},
    "(orders)?(-\\d)?(.eu)??": {"orders", "orders-1", "orders.eu"},
    "((){1000}){1000}.{1}": {"k"},
    "[^\\x00-\\x{10ffff}]*": set(),
}


@pytest.mark.parametrize("text", MATCHES, ids=range(len(MATCHES)))
def test_an_expression_matches_whole_names(text: str) -> None:
    pattern = TopicPattern(text)
    assert {name for name in NAMES if pattern.matches(name)} == MATCHES[text]
    assert set(result_of(pattern.matching_in_steps(NAMES))) == MATCHES[text]


UNSUPPORTED = {
    "too long": ("a" * (MAX_CHARACTERS + 1), f"{MAX_CHARACTERS + 1} characters, at most"),
    "too large": ("(a{1000}){5}", f"needs 5000 instructions, at most {MAX_SIZE}"),
    "huge": ("(" * 30 + "aa" + "{1000})" * 30, "needs 1001000 instructions, at most"),
    "too deep": ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} groups"),
    "look-ahead": ("a(?=b)", "invalid or unsupported Perl syntax"),
    "back-reference": ("(a)\\1", "invalid escape sequence"),
    "possessive": ("a*+", "invalid nested repetition operator"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_is_refused_by_name(name: str) -> None:
    text, message = UNSUPPORTED[name]
    with pytest.raises(PatternError, match=message):
        TopicPattern(text)


def test_an_expression_at_the_limits_is_compiled() -> None:
    assert TopicPattern("a" * MAX_CHARACTERS).matches("a" * MAX_CHARACTERS)
    assert TopicPattern("(a{256}){16}").matches("a" * MAX_SIZE)
    nested = "(" * MAX_DEPTH + "a|b" + ")*" * MAX_DEPTH
    assert TopicPattern(nested).matches("abba")


def test_a_name_costs_no_more_the_longer_it_is_repeated() -> None:
    """The cost of each character is bounded, though a backtracking matcher would need ages."""
    pattern = TopicPattern("(a*)*(a|aa)*(a?){100}(b|c(a+)+)+")
    costs = [sum(pattern.matching_in_steps(["a" * size] * 500)) for size in (60, 120, 240)]
    assert costs[2] < 5 * costs[0]
    assert not pattern.matches("a" * 240)


def test_matching_is_done_in_steps() -> None:
    names = [f"topic-{number}" for number in range(10_000)]
    steps = list(TopicPattern("topic-.*7").matching_in_steps(names))
    assert len(steps) > 10
    assert max(steps) < 1_000


def test_a_step_may_end_within_a_name() -> None:
    pattern = TopicPattern("((a|b)?b?){500}")
    assert len(list(pattern.matching_in_steps(["ab" * 120]))) > 10
    assert result_of(pattern.matching_in_steps(["ab" * 120])) == ["ab" * 120]


def test_kept_states_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names match as before, though the automaton's states are forgotten again and again."""
    monkeypatch.setattr(pattern_module, "MAX_KEPT", 500)
    text = "(a|b)*a(a|b){8}"
    rng = Random(1)
    names = ["".join(rng.choices("ab", k=rng.randint(1, 60))) for _ in range(500)]
    pattern = TopicPattern(text)
    kept = []
    for name in names:
        assert pattern.matches(name) == (len(name) > 8 and name[-9] == "a")
        kept.append(pattern._kept)
    assert max(kept) <= 500
    assert sorted(kept) != kept, "never forgotten"


SYNTAX = st.text("ab(|)*+?{}1,[]^-\\dQExp:.<>P", max_size=30)


@given(st.text(max_size=40) | SYNTAX, st.text("ab-._1", max_size=20))
def test_any_text_is_compiled_or_refused(text: str, name: str) -> None:
    try:
        pattern = TopicPattern(text)
    except PatternError:
        return
    assert pattern.matches(name) in {True, False}


@given(st.text("abAB.-_1", max_size=20), st.text("abAB.-_1", max_size=20))
def test_a_quoted_name_matches_itself_alone(name: str, other: str) -> None:
    pattern = TopicPattern(f"\\Q{name}\\E")
    assert pattern.matches(name)
    assert pattern.matches(other) == (name == other)

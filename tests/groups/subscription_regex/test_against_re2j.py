"""Random expressions match the same names, or get the same error, as in Kafka's library re2j."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.groups.subscription_regex.pattern import TopicPattern
from kraftlog.groups.subscription_regex.syntax import PatternError
from kraftlog.steps import result_of
from tests.groups.subscription_regex.random_patterns import ATOMS, NOISE, RandomPatterns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.interop.driver import Driver

PATTERNS = 6_000
NAMES = 30


def answer(pattern: str, names: Sequence[str]) -> Any:
    try:
        return result_of(TopicPattern(pattern).matching_in_steps(names))
    except PatternError as error:
        return str(error)


@pytest.mark.interop
def test_patterns_match_and_are_refused_as_in_re2j(jvm: Driver) -> None:
    patterns = RandomPatterns(Random(1))
    cases = [(patterns.pattern(), patterns.names(NAMES)) for _ in range(PATTERNS)]
    cases += [(piece, patterns.names(NAMES)) for piece in (*ATOMS, *NOISE)]
    cases += [(f"(?i){piece}+", patterns.names(NAMES)) for piece in ATOMS]
    theirs = json.loads(jvm.tool("RegexOracle", stdin=json.dumps(cases).encode()).ok().stdout)
    ours = [answer(*case) for case in cases]
    wrong = [
        (case[0], mine, other)
        for case, mine, other in zip(cases, ours, theirs, strict=True)
        if mine != other
    ]
    assert wrong[:3] == [], f"{len(wrong)} of {len(cases)}"
    refused = {each for each in ours if isinstance(each, str)}
    assert len(refused) == 12, refused
    matched = sum([bool(each) and isinstance(each, list) for each in ours])
    assert matched > PATTERNS // 4

"""What plausible requests leave in the logs, all who read them replay alike (see `lives`)."""

from __future__ import annotations

from random import Random

import pytest

from tests.node.lives import DynamicLife, Life
from tests.node.lives_of_three import LifeOfThree

LIVES, STEPS = 4, 100


@pytest.mark.parametrize("first", range(0, 60, LIVES))
def test_what_requests_leave_is_replayed_by_all(first: int) -> None:
    for seed in range(first, first + LIVES):
        Life(Random(seed)).go_on(STEPS)


@pytest.mark.parametrize("first", range(0, 20, LIVES))
def test_a_quorum_of_one_that_stands_in_the_log_is_replayed_by_all(first: int) -> None:
    for seed in range(first, first + LIVES):
        DynamicLife(Random(seed)).go_on(STEPS)


@pytest.mark.parametrize("seed", range(8))
def test_three_nodes_replay_the_same_whatever_is_asked_of_them(seed: int) -> None:
    """I3: also when one of them is down for a while, and another leads."""
    LifeOfThree(Random(seed)).go_on(60)

"""All readers replay the same state from logs written by plausible requests (see `lives`).

`make fuzz-requests` runs more of them.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.node.lives import DynamicLife, Life
from tests.node.lives_of_three import LifeOfThree
from tests.node.replicated_lives import ReplicatedLife

LIVES, STEPS = 4, 100


@pytest.mark.parametrize("first", range(0, 40, LIVES))
def test_all_readers_replay_the_same_from_the_logs(first: int) -> None:
    for seed in range(first, first + LIVES):
        Life(Random(seed)).run_steps(STEPS)


@pytest.mark.parametrize("first", range(0, 12, LIVES))
def test_a_dynamic_quorum_of_one_is_replayed_by_all_readers(first: int) -> None:
    for seed in range(first, first + LIVES):
        DynamicLife(Random(seed)).run_steps(STEPS)


@pytest.mark.parametrize("seed", range(5))
def test_three_nodes_replay_the_same_image(seed: int) -> None:
    """I3: also if one of them is down for a while, and another leads."""
    LifeOfThree(Random(seed)).run_steps(60)


@pytest.mark.parametrize("seed", [87, 90])
def test_requests_in_the_name_of_brokers_fail_no_node(seed: int) -> None:
    """Coordinators once forgot what timed out and was committed later: these seeds found it."""
    ReplicatedLife(Random(seed)).run_steps(STEPS)

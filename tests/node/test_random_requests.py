"""All readers replay the same state from logs of nodes under random requests (see `fuzzed_node`).

`make fuzz-requests` runs more seeds.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.node.fuzzed_node import FuzzedDynamicNode, FuzzedNode
from tests.node.replicating_nodes import ReplicatingNodes
from tests.node.three_nodes import ThreeNodes

#: The number of seeds in a test, and of steps in the run of a seed.
SEEDS, STEPS = 4, 100


@pytest.mark.parametrize("first", range(0, 40, SEEDS))
def test_all_readers_replay_the_same_from_the_logs(first: int) -> None:
    for seed in range(first, first + SEEDS):
        FuzzedNode(Random(seed)).run_steps(STEPS)


@pytest.mark.parametrize("first", range(0, 12, SEEDS))
def test_a_dynamic_quorum_of_one_is_replayed_by_all_readers(first: int) -> None:
    for seed in range(first, first + SEEDS):
        FuzzedDynamicNode(Random(seed)).run_steps(STEPS)


@pytest.mark.parametrize("seed", range(5))
def test_three_nodes_replay_the_same_image(seed: int) -> None:
    """I3: also if one of them is down for a while, and another leads."""
    ThreeNodes(Random(seed)).run_steps(60)


@pytest.mark.parametrize("seed", [87, 90])
def test_requests_in_the_name_of_brokers_fail_no_node(seed: int) -> None:
    """Coordinators once forgot writes that timed out and were committed later, in these runs."""
    ReplicatingNodes(Random(seed)).run_steps(STEPS)

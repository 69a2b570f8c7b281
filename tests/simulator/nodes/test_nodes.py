"""Whole nodes in the simulated world: real node, runner and storage; bytes between them."""

from __future__ import annotations

import pytest

from kraftlog_simulator.nodes.world import NodeWorld
from kraftlog_simulator.run import scenario_of, scenarios, simulate
from kraftlog_simulator.setting import KAFKA_TIMES, Setting
from kraftlog_simulator.world import Goal
from tests.simulator.traces import expect_same_under_any_hash_seed

#: `make nodes` plays 500 others.
RUNS = 3
#: Runs that once found a bug.
PINNED = [
    ("mixture", 19),  # an observer tried only the bootstrap address that always responded (Q32)
    ("mixture", 20241),  # a leader that responded at a bootstrap address was not found (Q24)
    # The watcher of messages took the epoch of a request for that of its response.
    ("reads-anywhere", 32),
]


@pytest.mark.parametrize("scenario", sorted(scenarios(nodes=True)))
def test_q37_whole_nodes_pass_every_scenario(scenario: str) -> None:
    outcome = simulate(scenario, 1, nodes=True)
    assert not outcome.failed, str(outcome)


@pytest.mark.parametrize(("scenario", "seed"), PINNED)
def test_q37_pinned_seeds_of_whole_nodes_pass(scenario: str, seed: int) -> None:
    outcome = simulate(scenario, seed, nodes=True)
    assert not outcome.failed, str(outcome)


@pytest.mark.slow
def test_q37_random_runs_of_whole_nodes_pass() -> None:
    outcomes = [simulate(scenario_of(seed, nodes=True), seed, nodes=True) for seed in range(RUNS)]
    assert [str(outcome) for outcome in outcomes if outcome.failed] == []


@pytest.mark.slow
def test_q37_whole_nodes_repeat_a_run_under_any_hash_seed() -> None:
    expect_same_under_any_hash_seed("mixture", 1, "nodes")


def test_q8_a_power_loss_loses_only_unsynced_data() -> None:
    """The storage is real: recovery finds all durable data."""
    world = NodeWorld(3, Setting(voters=3, raft=KAFKA_TIMES, append_gap_ms=(20, 60)))
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    world.run_until(Goal("ten appends", lambda: world.workload.acknowledged >= 10, 20_000))
    durable = {
        replica.id: replica.disk.chains[: replica.disk.durable]
        for replica in world.replicas.values()
    }
    for replica in world.replicas.values():
        world.lose_power(replica)
        world.start(replica)
        assert replica.disk.chains[: len(durable[replica.id])] == durable[replica.id]
    assert world.oracle.committed == durable[0][: len(world.oracle.committed)]

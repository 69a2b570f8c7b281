"""A broker whose process runs is not fenced before its session may have ended (V2, V23)."""

from __future__ import annotations

import pytest

from kraftlog_simulator.cluster.fenced_brokers import FencedEarlyOnlyIfGone
from kraftlog_simulator.violation import Violation
from tests.simulator.cluster.test_replication_rules import ThreeReplicaWorld


def test_v23_a_running_broker_that_is_fenced_early_is_found() -> None:
    """Not one whose process has ended."""
    world = ThreeReplicaWorld(1)
    world.play_script(lambda _: iter(()))
    invariant = next(i for i in world.cluster_invariants if isinstance(i, FencedEarlyOnlyIfGone))
    controller = world.controller
    active = controller.node.active_controller
    assert active is not None
    brokers = active.controller.state.brokers
    other = next(node for node in world.replicas.values() if node is not controller)
    unfenced = brokers[other.id]
    brokers[other.id] = unfenced.replace(fenced=True)
    with pytest.raises(Violation, match="runs and wants no fence"):
        invariant.on_turn(controller)
    brokers[other.id] = unfenced
    invariant.on_turn(controller)
    world.end_now(other)
    brokers[other.id] = unfenced.replace(fenced=True)
    invariant.on_turn(controller)

"""A broker whose process runs is not fenced before its session may have ended (V2, V23)."""

from __future__ import annotations

import pytest

from kraftlog.effects import RequestFailed, ResponseReceived, SendRequest
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
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


@pytest.mark.parametrize("has_failed", [False, True])
def test_v23_a_heartbeat_that_failed_may_still_arrive(has_failed: bool) -> None:
    """Its sender has been unfenced meanwhile by a later one, and is fenced until the next."""
    world = ThreeReplicaWorld(1)
    world.play_script(lambda _: iter(()))
    late = world.late_requests
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=7,
        current_metadata_offset=0,
        want_fence=True,
        want_shut_down=False,
    )
    effect = SendRequest("heartbeats", 0, "node0", 9093, 5, ApiKey.BROKER_HEARTBEAT, 1, request, 9)
    late.sent(effect)
    report = RequestFailed if has_failed else ResponseReceived
    late.reported(1, report("other", 0, 5, "timed out"))
    assert not late.want_fence
    late.reported(1, report("heartbeats", 0, 5, "timed out"))
    assert late.want_fence == ({(1, 7)} if has_failed else set())

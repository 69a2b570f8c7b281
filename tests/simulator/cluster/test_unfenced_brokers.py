"""A broker is unfenced only once it has replayed its registration (V5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from kraftlog_simulator.cluster.administrator import TopicAdministrator
from kraftlog_simulator.cluster.partition_administrator import PartitionAdministrator
from kraftlog_simulator.cluster.unfenced_brokers import ReplayedBeforeUnfenced
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal, time_passes
from tests.simulator.cluster.test_replication_rules import LIMIT_MS, ThreeReplicaWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.effects import SendRequest
    from kraftlog_simulator.cluster.node import ClusterNode


#: Shorter than a broker's session, longer than the controller needs to unfence a broker.
PAUSED_MS = 300


@pytest.fixture(autouse=True)
def keep_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the administrators of random runs, which recreate topics and change partitions."""
    monkeypatch.setattr(TopicAdministrator, "_recreate", lambda _: None)
    monkeypatch.setattr(PartitionAdministrator, "begin", lambda _: None)


class PausingWorld(ThreeReplicaWorld):
    """Pauses a broker that has sent a heartbeat before it has replayed its registration."""

    def __init__(self, seed: int) -> None:
        self.paused_broker = -1
        self.is_armed = False
        super().__init__(seed, separate=True)

    def requested(self, effect: SendRequest) -> None:
        if not self.is_armed or effect.api_key != ApiKey.BROKER_HEARTBEAT:
            return
        request = effect.request
        if request.current_metadata_offset < request.broker_epoch:
            self.is_armed = False
            self.paused_broker = request.broker_id
            self.schedule(self.time, self._pause, self.replicas[request.broker_id])

    @staticmethod
    def _pause(node: ClusterNode) -> None:
        node.paused = True


def test_v5_a_broker_that_registers_again_is_unfenced_after_its_replay() -> None:
    """It sends its first heartbeat before it has replayed its new registration, and is paused.

    An operator has unregistered it while it runs; it had opened its logs long before.
    """

    def script(world: PausingWorld) -> Iterator[Goal]:
        broker = world.follower().id
        epoch = world.image.brokers[broker].epoch
        world.is_armed = True
        request = UnregisterBrokerRequest(broker_id=broker)
        world.controller.send_as_client(ApiKey.UNREGISTER_BROKER, 0, request, lambda _: None)

        def is_back() -> bool:
            registered = world.image.brokers.get(broker)
            return registered is not None and registered.epoch > epoch

        yield Goal("the broker is registered again", is_back, LIMIT_MS)
        yield time_passes(PAUSED_MS)
        if world.paused_broker >= 0:
            assert world.image.brokers[broker].fenced
            world.replicas[broker].resume()

    paused = 0
    for seed in range(20):
        world = PausingWorld(seed)
        world.play_script(script)  # type: ignore[arg-type]  # it gets this world
        paused += world.paused_broker >= 0
        if paused:
            return
    raise AssertionError("no heartbeat left before the replay")


def test_v5_a_broker_unfenced_too_early_is_found() -> None:
    world = ThreeReplicaWorld(1)
    world.play_script(lambda _: iter(()))
    invariant = next(i for i in world.cluster_invariants if isinstance(i, ReplayedBeforeUnfenced))
    brokers = world.image.brokers
    applied = world.replicas[0].node.quorum.applied
    brokers[0] = brokers[0].replace(epoch=applied, fenced=True)
    invariant.on_image(world.image)
    brokers[0] = brokers[0].replace(fenced=False)
    with pytest.raises(Violation, match="has replayed only"):
        invariant.on_image(world.image)

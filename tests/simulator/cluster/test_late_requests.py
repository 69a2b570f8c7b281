"""Requests of brokers that reach the controller when they are outdated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.wire.apis import APIS, ApiKey
from kraftlog_simulator.cluster.administrator import TopicAdministrator
from kraftlog_simulator.cluster.late_requests import check_response
from kraftlog_simulator.cluster.partition_administrator import PartitionAdministrator
from kraftlog_simulator.run import simulate
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal, time_passes
from tests.simulator.cluster.test_replication_rules import LIMIT_MS, ThreeReplicaWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.effects import SendRequest


@pytest.fixture(autouse=True)
def keep_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the administrators of random runs, which recreate topics and change partitions."""
    monkeypatch.setattr(TopicAdministrator, "_recreate", lambda _: None)
    monkeypatch.setattr(PartitionAdministrator, "begin", lambda _: None)


class RecordingWorld(ThreeReplicaWorld):
    """Keeps the AlterPartition requests that brokers have sent."""

    def __init__(self, seed: int) -> None:
        self.recorded: list[SendRequest] = []
        super().__init__(seed, separate=True)

    def requested(self, effect: SendRequest) -> None:
        if effect.api_key == ApiKey.ALTER_PARTITION:
            self.recorded.append(effect)

    def repeat(self, effect: SendRequest) -> None:
        version = APIS[effect.api_key].last
        self.controller.send_as_client(effect.api_key, version, effect.request, lambda _: None)


@pytest.mark.parametrize("seed", range(2))
def test_v9_a_late_proposal_brings_no_member_back_into_the_isr(seed: int) -> None:
    """V1, V9: the leader epoch is the same; the partition epoch shows that it is outdated.

    Without that check a follower that has left the ISR since would be in it without the records
    that were committed meanwhile.
    """

    def script(world: RecordingWorld) -> Iterator[Goal]:
        follower = world.follower()

        def is_in_sync() -> bool:
            return follower.id in world.partition.isr

        world.cut_connection(follower, world.partition_leader)
        yield Goal("the follower leaves the ISR", lambda: not is_in_sync(), LIMIT_MS)
        world.recorded.clear()
        world.network.heal()
        yield Goal("the follower is back in the ISR", is_in_sync, LIMIT_MS)
        [expansion] = world.recorded[-1:]
        world.cut_connection(follower, world.partition_leader)
        yield Goal("the follower leaves the ISR again", lambda: not is_in_sync(), LIMIT_MS)
        yield world.more_committed()
        epoch = world.partition.partition_epoch
        world.repeat(expansion)
        yield world.more_committed()
        assert (world.partition.partition_epoch, is_in_sync()) == (epoch, False)

    world = RecordingWorld(seed)
    world.play_script(script)  # type: ignore[arg-type]  # it gets this world


@pytest.mark.parametrize("seed", range(2))
def test_v7_a_member_counts_from_its_proposal_on(seed: int) -> None:
    """V7: the controller has the new ISR for long before the leader learns of it.

    Meanwhile the new member is cut off. The leader must not commit without it, or it could be
    elected without the records.
    """

    def script(world: RecordingWorld) -> Iterator[Goal]:
        leader, follower = world.partition_leader, world.follower()
        controllers = range(world.setting.voters)

        def is_in_sync() -> bool:
            return follower.id in world.partition.isr

        world.cut_connection(follower, leader)
        yield Goal("the follower leaves the ISR", lambda: not is_in_sync(), LIMIT_MS)
        world.recorded.clear()
        world.network.heal()
        yield Goal("the leader proposes the follower", lambda: bool(world.recorded), LIMIT_MS)
        world.network.cut(controllers, [leader.id])
        yield Goal("the controller has the new ISR", is_in_sync, LIMIT_MS)
        partition = leader.node.replica_manager.partitions[world.key]
        assert follower.id not in partition.isr, "the leader does not know it yet"
        assert partition.leads
        world.cut_connection(follower, leader)
        yield time_passes(2 * world.setting.lag_ms)

    world = RecordingWorld(seed)
    world.play_script(script)  # type: ignore[arg-type]  # it gets this world


def test_v23_random_runs_have_outdated_requests() -> None:
    wanted = {"late AlterPartition", "late BrokerHeartbeat", "outdated Fetch"}
    for seed in range(1, 20):
        outcome = simulate("cluster", seed, kinds=("late-requests", "kill", "isolate"))
        assert not outcome.failed, str(outcome)
        if wanted <= {*outcome.coverage}:
            return
    raise AssertionError("no outdated request")


def response(code: int, *partition_codes: int, diverging: int = -1) -> Any:
    diverging_epoch = SimpleNamespace(end_offset=diverging)
    partitions = [
        SimpleNamespace(error_code=each, diverging_epoch=diverging_epoch)
        for each in partition_codes
    ]
    topics = [SimpleNamespace(partitions=partitions)] if partitions else []
    return SimpleNamespace(error_code=code, responses=topics)


@pytest.mark.parametrize("codes", [(0, 0), (0, 74, 0)])
def test_v23_an_accepted_request_of_an_earlier_process_is_found(codes: tuple[int, ...]) -> None:
    node = "node 1"
    with pytest.raises(Violation, match="accepts a late Fetch of an earlier process"):
        check_response(node, "Fetch", "an earlier process", response(*codes))
    check_response(node, "Fetch", "", response(*codes))
    check_response(node, "Fetch", "an earlier process", response(0, 74, 6))
    check_response(node, "Fetch", "an earlier process", response(70))
    check_response(node, "Fetch", "an earlier process", response(0, 0, diverging=4))

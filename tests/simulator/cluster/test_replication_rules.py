"""Rules of replication on simulated nodes with clients; every invariant is checked throughout."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.keys import TOPIC
from kraftlog.controller.sessions import BEHIND_LIMIT_MS
from kraftlog.controller.state import MIN_ISR
from kraftlog.errors import ErrorCode
from kraftlog.node.coordinators.group_coordinators import TOPIC as OFFSETS
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog_simulator.cluster.administrator import TopicAdministrator
from kraftlog_simulator.cluster.partition_administrator import PartitionAdministrator
from kraftlog_simulator.cluster.run import all_in_sync, begin, heal
from kraftlog_simulator.cluster.setting import ClusterSetting
from kraftlog_simulator.cluster.world import ClusterWorld
from kraftlog_simulator.run import simulate
from kraftlog_simulator.setting import KAFKA_TIMES
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.replication.partition import Partition
    from kraftlog_simulator.cluster.node import ClusterNode

    Script = Callable[["ThreeReplicaWorld"], Iterator[Goal]]

#: The generous limit for reaching a goal, in simulated time.
LIMIT_MS = 20_000
PARTITIONS = 6


class ThreeReplicaWorld(ClusterWorld):
    """A world of three nodes and a partition with a replica on each, which clients write and read.

    With `separate` the active controller is another node.
    """

    def __init__(
        self,
        seed: int,
        *,
        separate: bool = False,
        members: int = 0,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        setting = ClusterSetting(
            voters=3,
            observers=3 if separate else 0,
            separate=separate,
            raft=KAFKA_TIMES,
            replication=3,
            min_insync=2,
            batch_gap_ms=(20, 60),
            members=members,
            offsets_partitions=1,
        )
        super().__init__(seed, setting, trace)

    def play_script(self, script: Script) -> ThreeReplicaWorld:
        """Play the script once the cluster commits records, and then heal it."""

        def whole_script() -> Iterator[Goal]:
            yield from begin(self)
            yield self.more_committed()
            yield from script(self)
            yield from heal(self)

        self.play(whole_script())
        return self

    @property
    def key(self) -> PartitionKey:
        return self.keys[0]

    @property
    def partition(self) -> PartitionImage:
        return self.image.partitions[self.key]

    @property
    def partition_leader(self) -> ClusterNode:
        """The node that leads the partition."""
        return self.replicas[self.partition.leader]

    @property
    def controller(self) -> ClusterNode:
        """The node whose controller is active."""
        leader = self.agreed_leader()
        assert leader is not None
        return self.replicas[leader.id]

    def follower(self, number: int = 0) -> ClusterNode:
        leader = self.partition.leader
        followers = [broker for broker in self.partition.replicas if broker != leader]
        return self.replicas[followers[number]]

    def cut_connection(self, one: ClusterNode, other: ClusterNode) -> None:
        self.network.cut([one.id], [other.id])
        self.network.cut([other.id], [one.id])

    def more_committed(self, count: int = 5) -> Goal:
        wanted = self.committed(self.key).high_watermark + count
        return Goal(
            "more is committed", lambda: self.committed(self.key).high_watermark >= wanted, LIMIT_MS
        )

    def another_leader_than(self, node: ClusterNode) -> Goal:
        return Goal(
            "another broker leads", lambda: self.partition.leader not in (node.id, -1), LIMIT_MS
        )


@pytest.fixture(autouse=True)
def keep_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the administrators of random runs, which recreate topics and change partitions."""
    monkeypatch.setattr(TopicAdministrator, "_recreate", lambda _: None)
    monkeypatch.setattr(PartitionAdministrator, "begin", lambda _: None)


@pytest.mark.parametrize("seed", range(3))
def test_v9_an_isolated_leader_commits_nothing(seed: int) -> None:
    """V1, V2, V9, C187: the next leader commits, while clients still write to the old one."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        old = world.partition_leader
        world.network.isolate(old.id)
        yield world.another_leader_than(old)
        yield world.more_committed()
        replica = old.node.replica_manager.partitions[world.key]
        mark = replica.high_watermark
        assert replica.leads, "the old leader does not know of the election"
        assert replica.leader_epoch < world.partition.leader_epoch
        yield world.more_committed(20)
        assert replica.leads
        assert replica.high_watermark == mark
        assert old.id not in world.partition.isr

    ThreeReplicaWorld(seed).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v8_a_follower_that_cannot_fetch_leaves_the_isr_and_returns(seed: int) -> None:
    """V7, V8: its heartbeats arrive, so only the leader can notice; `heal` waits for its return.

    C168.
    """

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        follower = world.follower()
        world.cut_connection(follower, world.partition_leader)
        yield Goal(
            "the follower leaves the ISR", lambda: follower.id not in world.partition.isr, LIMIT_MS
        )
        assert not world.image.brokers[follower.id].fenced
        yield world.more_committed()

    ThreeReplicaWorld(seed, separate=True).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v12_a_consumer_ahead_of_the_new_leader_waits(seed: int) -> None:
    """V12, C186: the consumer has read records that the next leader does not know as committed."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        old, [consumer] = world.partition_leader, world.consumers

        def position() -> int:
            return consumer.positions.get(world.key, 0)

        def high_watermark_of(node: ClusterNode) -> int:
            return node.node.replica_manager.partitions[world.key].high_watermark

        def fetches() -> int:
            """In a session the responses without news have no partition."""
            counts = world.coverage
            return counts["fetch served"] + counts.get("incremental fetch", 0)

        def is_ahead() -> bool:
            return position() > max(high_watermark_of(world.follower(number)) for number in (0, 1))

        yield Goal("the consumer is ahead of the followers", is_ahead, LIMIT_MS)
        world.cut_connection(world.follower(0), world.follower(1))
        for number in (0, 1):  # a response on its way would contain the high watermark
            world.cut_connection(world.follower(number), old)
        world.kill(old)
        yield world.another_leader_than(old)
        before = fetches()
        yield Goal("the consumer has fetched", lambda: fetches() >= before + 3, LIMIT_MS)
        assert (
            high_watermark_of(world.partition_leader)
            < position()
            <= world.partition_leader.logs[world.key].end
        )

    coverage = ThreeReplicaWorld(seed, separate=True).play_script(script).coverage
    assert f"fetch error {ErrorCode.OFFSET_OUT_OF_RANGE}" not in coverage


@pytest.mark.parametrize("seed", range(3))
def test_v13_followers_fetch_from_others_while_a_leader_is_cut_off(seed: int) -> None:
    """V13: a fetch that gets no response holds back no other leader's partitions."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        world.topics.missing_topics["other"] = PARTITIONS
        world.topics.take_turn()
        yield Goal("the topic exists", lambda: len(world.keys) > PARTITIONS, LIMIT_MS)
        cut_off, leader, follower = world.image.brokers

        def led_by(broker: int) -> list[PartitionImage]:
            return [
                partition
                for partition in world.image.partitions.values()
                if partition.leader == broker
            ]

        yield Goal(
            "both brokers lead partitions", lambda: all(map(led_by, (cut_off, leader))), LIMIT_MS
        )
        yield Goal("all are in sync", lambda: all_in_sync(world), LIMIT_MS)
        world.cut_connection(world.replicas[cut_off], world.replicas[follower])
        high_watermarks = {
            partition.key: world.committed(partition.key).high_watermark
            for partition in led_by(leader)
        }
        yield Goal(
            "the leader that is cut off notices",
            lambda: all(follower not in partition.isr for partition in led_by(cut_off)),
            LIMIT_MS,
        )
        assert all({*partition.isr} == {cut_off, leader, follower} for partition in led_by(leader))
        assert all(
            world.committed(key).high_watermark > high_watermark
            for key, high_watermark in high_watermarks.items()
        )

    ThreeReplicaWorld(seed, separate=True).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v7_a_coordinator_answers_once_all_of_its_log_is_committed(seed: int) -> None:
    """V7: else the next leader could lack offsets that the coordinator has returned."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        def fetched() -> int:
            return world.coverage.get("OffsetFetch served", 0)

        def replica_of(node: ClusterNode) -> Partition:
            return node.node.replica_manager.partitions[key]

        def lags(node: ClusterNode) -> bool:
            return replica_of(node).high_watermark < replica_of(node).written_end

        def leader() -> int:
            return world.image.partitions[key].leader

        yield Goal("offsets are fetched", fetched, LIMIT_MS)
        topic = world.image.topic_named(OFFSETS)
        assert topic is not None
        key = topic.id, 0
        old = leader()
        first, second = [world.replicas[broker] for broker in world.image.brokers if broker != old]
        yield Goal(
            "neither follower knows what is committed",
            lambda: lags(first) and lags(second),
            LIMIT_MS,
        )
        world.cut_connection(first, second)
        world.kill(world.replicas[old])
        yield Goal("another broker leads", lambda: leader() not in (old, -1), LIMIT_MS)
        load_in_progress = f"error {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}"
        before = fetched()
        yield Goal(
            "the next coordinator is asked",
            lambda: any(seen.endswith(load_in_progress) for seen in world.coverage),
            LIMIT_MS,
        )
        yield time_passes(1000)
        assert lags(world.replicas[leader()])
        assert fetched() == before

    ThreeReplicaWorld(seed, separate=True, members=1).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v16_clients_meet_only_retriable_errors_at_failovers(seed: int) -> None:
    """V16, C249: a client retries such an error with the next leader."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        for number in range(4):
            old = world.partition_leader
            if number % 2:
                old.shut_down()
            else:
                world.kill(old)
                world.schedule(world.time + 500, world.start, old)
            yield world.another_leader_than(old)
            yield world.more_committed()
            yield Goal("all are in sync", lambda: len(world.partition.isr) == 3, LIMIT_MS)

    coverage = Counter(ThreeReplicaWorld(seed).play_script(script).coverage)
    codes = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert (
        sum(
            coverage[f"{request} error {code}"]
            for request in ("fetch", "produce")
            for code in codes
        )
        > 0
    )


@pytest.mark.parametrize("seed", range(3))
def test_v14_the_next_controller_decides_what_the_last_one_could_not(seed: int) -> None:
    """V2, V14, C244: the controller and the partition's leader fail at the same time."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        first = world.controller
        before = world.image
        world.kill(first)
        yield Goal(
            "another controller", lambda: world.agreed_leader() not in (first, None), LIMIT_MS
        )
        assert world.image.topics == before.topics
        yield Goal(
            "the killed broker is fenced", lambda: world.image.brokers[first.id].fenced, LIMIT_MS
        )
        assert world.partition.leader not in (first.id, -1)
        yield world.more_committed()

    ThreeReplicaWorld(seed).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v3_leadership_has_moved_when_a_broker_ends(seed: int) -> None:
    """V3, V5, C213: after its restart it is unfenced again."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        old = world.partition_leader
        old.shut_down()
        yield Goal("the broker has stopped", lambda: old.core is None, LIMIT_MS)
        assert world.partition.leader not in (old.id, -1)
        assert old.id not in world.partition.isr
        yield world.more_committed()

    assert ThreeReplicaWorld(seed).play_script(script).coverage["clean shutdown"] > 0


@pytest.mark.parametrize("minimum", ["1", "3"])
def test_v21_a_changed_min_isr_keeps_the_way_back(minimum: str) -> None:
    """V20, V21: it changes while no replica runs; then all run again, and clients go on."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        brokers = [world.replicas[broker] for broker in world.image.brokers]
        for broker in brokers:
            world.end_now(broker)
            yield Goal("it is fenced", lambda it=broker: is_fenced(world, it), LIMIT_MS)
        assert (world.partition.leader, world.partition.isr) == (-1, ())
        set_min_isr(world, minimum)
        yield Goal(
            "the minimum has changed",
            lambda: world.image.config(TOPIC, topic_name(world)).get(MIN_ISR) == minimum,
            LIMIT_MS,
        )
        for broker in brokers:
            world.start(broker)
        yield Goal("a replica leads", lambda: world.partition.leader >= 0, LIMIT_MS)
        yield world.more_committed()

    ThreeReplicaWorld(1, separate=True).play_script(script)


def is_fenced(world: ThreeReplicaWorld, broker: ClusterNode) -> bool:
    return world.image.brokers[broker.id].fenced


def topic_name(world: ThreeReplicaWorld) -> str:
    return world.image.topics[world.partition.topic_id].name


def set_min_isr(world: ThreeReplicaWorld, minimum: str) -> None:
    """Change min.insync.replicas of the topic."""
    node = world.controller.node
    config = AlterableConfig(name=MIN_ISR, config_operation=0, value=minimum)
    resource = AlterConfigsResource(
        resource_type=TOPIC, resource_name=topic_name(world), configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    node.controller_channel.send(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, lambda *_: None, node.now
    )


def test_v17_a_broker_that_applies_nothing_is_behind() -> None:
    """V17, C214: the controller measures the broker's lag from its heartbeats, and logs it once."""

    def script(world: ThreeReplicaWorld) -> Iterator[Goal]:
        slow, other = world.follower(0), world.follower(1)
        controller = world.controller.node.active_controller
        assert controller is not None
        sessions = controller.controller.sessions
        applier = slow.node.quorum.applier
        applier.is_applying = True  # as while a large batch is applied
        # A follower leaves the ISR, so that there is a new record to apply.
        world.cut_connection(other, world.partition_leader)
        yield Goal("the broker is behind", lambda: sessions.behind_ms(world.time) != [], LIMIT_MS)
        assert not world.image.brokers[slow.id].fenced
        yield time_passes(BEHIND_LIMIT_MS + 1000)
        assert not world.image.brokers[slow.id].fenced
        assert len(sessions.behind_ms(world.time)) == 1
        applier.is_applying = False
        applier.apply_committed()
        yield Goal(
            "the broker is no longer behind", lambda: sessions.behind_ms(world.time) == [], LIMIT_MS
        )

    lines: list[str] = []
    ThreeReplicaWorld(1, separate=True, trace=lines.append).play_script(script)
    assert len([line for line in lines if "is slow to apply metadata" in line]) == 1


@pytest.mark.parametrize(
    ("kinds", "situation"),
    [
        pytest.param(("power",), "partition truncated", id="V6"),
        pytest.param(("failing-disk", "failing-writes"), "node stopped by its disk", id="V18"),
    ],
)
def test_logs_agree_after_disks_have_lost_data_or_failed(
    kinds: tuple[str, ...], situation: str
) -> None:
    """V6, V15, V18: no seed fails up to and including the first that reaches the situation."""
    for seed in range(1, 20):
        outcome = simulate("cluster", seed, kinds=kinds)
        assert not outcome.failed, str(outcome)
        if situation in outcome.coverage:
            return
    raise AssertionError(f"never: {situation}")

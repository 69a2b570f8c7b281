"""Rules of replication on simulated nodes with clients; every invariant is checked throughout."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kraftlog.controller.sessions import BEHIND_LIMIT_MS
from kraftlog.errors import ErrorCode
from kraftlog.node.coordinators.group_coordinators import TOPIC as OFFSETS
from kraftlog.simulator.cluster.administrator import TopicAdministrator
from kraftlog.simulator.cluster.partition_administrator import PartitionAdministrator
from kraftlog.simulator.cluster.run import all_in_sync, begin, heal
from kraftlog.simulator.cluster.setting import ClusterSetting
from kraftlog.simulator.cluster.world import ClusterWorld
from kraftlog.simulator.run import simulate
from kraftlog.simulator.setting import KAFKA_TIMES
from kraftlog.simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.replication.partition import Partition
    from kraftlog.simulator.cluster.node import ClusterNode

    Script = Callable[["Story"], Iterator[Goal]]

#: The generous limit for reaching a goal, in simulated time.
LIMIT_MS = 20_000
PARTITIONS = 6


class Story(ClusterWorld):
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

    def play_script(self, script: Script) -> Story:
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
    def broker(self) -> ClusterNode:
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

    def script(story: Story) -> Iterator[Goal]:
        old = story.broker
        story.network.isolate(old.id)
        yield story.another_leader_than(old)
        yield story.more_committed()
        replica = old.node.replica_manager.partitions[story.key]
        mark = replica.high_watermark
        assert replica.leads, "the old leader does not know of the election"
        assert replica.leader_epoch < story.partition.leader_epoch
        yield story.more_committed(20)
        assert replica.leads
        assert replica.high_watermark == mark
        assert old.id not in story.partition.isr

    Story(seed).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v8_a_follower_that_cannot_fetch_leaves_the_isr_and_returns(seed: int) -> None:
    """V7, V8: its heartbeats arrive, so only the leader can notice; `heal` expects it to return.

    C168.
    """

    def script(story: Story) -> Iterator[Goal]:
        follower = story.follower()
        story.cut_connection(follower, story.broker)
        yield Goal(
            "the follower leaves the ISR", lambda: follower.id not in story.partition.isr, LIMIT_MS
        )
        assert not story.image.brokers[follower.id].fenced
        yield story.more_committed()

    Story(seed, separate=True).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v12_a_consumer_ahead_of_the_new_leader_waits(seed: int) -> None:
    """V12, C186: it has read records that the next leader does not know to be committed."""

    def script(story: Story) -> Iterator[Goal]:
        old, [consumer] = story.broker, story.consumers

        def position() -> int:
            return consumer.positions.get(story.key, 0)

        def high_watermark_of(node: ClusterNode) -> int:
            return node.node.replica_manager.partitions[story.key].high_watermark

        def is_ahead() -> bool:
            return position() > max(high_watermark_of(story.follower(number)) for number in (0, 1))

        yield Goal("the consumer is ahead of the followers", is_ahead, LIMIT_MS)
        story.cut_connection(story.follower(0), story.follower(1))
        for number in (0, 1):  # a response on its way would contain the high watermark
            story.cut_connection(story.follower(number), old)
        story.kill(old)
        yield story.another_leader_than(old)
        served = story.coverage["fetch served"]
        yield Goal(
            "the consumer has fetched",
            lambda: story.coverage["fetch served"] >= served + 2,
            LIMIT_MS,
        )
        assert high_watermark_of(story.broker) < position() <= story.broker.logs[story.key].end

    coverage = Story(seed, separate=True).play_script(script).coverage
    assert f"fetch error {ErrorCode.OFFSET_OUT_OF_RANGE}" not in coverage


@pytest.mark.parametrize("seed", range(3))
def test_v13_followers_fetch_from_others_while_a_leader_is_cut_off(seed: int) -> None:
    """V13: a fetch that gets no response holds back no other leader's partitions."""

    def script(story: Story) -> Iterator[Goal]:
        story.topics.missing_topics["other"] = PARTITIONS
        story.topics.take_turn()
        yield Goal("the topic exists", lambda: len(story.keys) > PARTITIONS, LIMIT_MS)
        cut_off, leader, follower = story.image.brokers

        def led_by(broker: int) -> list[PartitionImage]:
            return [
                partition
                for partition in story.image.partitions.values()
                if partition.leader == broker
            ]

        yield Goal(
            "both brokers lead partitions", lambda: all(map(led_by, (cut_off, leader))), LIMIT_MS
        )
        yield Goal("all are in sync", lambda: all_in_sync(story), LIMIT_MS)
        story.cut_connection(story.replicas[cut_off], story.replicas[follower])
        high_watermarks = {
            partition.key: story.committed(partition.key).high_watermark
            for partition in led_by(leader)
        }
        yield Goal(
            "the leader that is cut off notices",
            lambda: all(follower not in partition.isr for partition in led_by(cut_off)),
            LIMIT_MS,
        )
        assert all({*partition.isr} == {cut_off, leader, follower} for partition in led_by(leader))
        assert all(
            story.committed(key).high_watermark > high_watermark
            for key, high_watermark in high_watermarks.items()
        )

    Story(seed, separate=True).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v7_a_coordinator_answers_once_all_of_its_log_is_committed(seed: int) -> None:
    """V7: else the next leader could lack offsets that the coordinator has returned."""

    def script(story: Story) -> Iterator[Goal]:
        def fetched() -> int:
            return story.coverage.get("OffsetFetch served", 0)

        def replica_of(node: ClusterNode) -> Partition:
            return node.node.replica_manager.partitions[key]

        def lags(node: ClusterNode) -> bool:
            return replica_of(node).high_watermark < replica_of(node).written_end

        def leader() -> int:
            return story.image.partitions[key].leader

        yield Goal("offsets are fetched", fetched, LIMIT_MS)
        topic = story.image.topic_named(OFFSETS)
        assert topic is not None
        key = topic.id, 0
        old = leader()
        first, second = [story.replicas[broker] for broker in story.image.brokers if broker != old]
        yield Goal(
            "neither follower knows what is committed",
            lambda: lags(first) and lags(second),
            LIMIT_MS,
        )
        story.cut_connection(first, second)
        story.kill(story.replicas[old])
        yield Goal("another broker leads", lambda: leader() not in (old, -1), LIMIT_MS)
        load_in_progress = f"error {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}"
        before = fetched()
        yield Goal(
            "the next coordinator is asked",
            lambda: any(seen.endswith(load_in_progress) for seen in story.coverage),
            LIMIT_MS,
        )
        yield time_passes(1000)
        assert lags(story.replicas[leader()])
        assert fetched() == before

    Story(seed, separate=True, members=1).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v16_clients_meet_only_retriable_errors_at_failovers(seed: int) -> None:
    """V16, C249: so they retry at the next leader."""

    def script(story: Story) -> Iterator[Goal]:
        for number in range(4):
            old = story.broker
            if number % 2:
                old.shut_down()
            else:
                story.kill(old)
                story.schedule(story.time + 500, story.start, old)
            yield story.another_leader_than(old)
            yield story.more_committed()
            yield Goal("all are in sync", lambda: len(story.partition.isr) == 3, LIMIT_MS)

    coverage = Counter(Story(seed).play_script(script).coverage)
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

    def script(story: Story) -> Iterator[Goal]:
        first = story.controller
        before = story.image
        story.kill(first)
        yield Goal(
            "another controller", lambda: story.agreed_leader() not in (first, None), LIMIT_MS
        )
        assert story.image.topics == before.topics
        yield Goal(
            "the killed broker is fenced", lambda: story.image.brokers[first.id].fenced, LIMIT_MS
        )
        assert story.partition.leader not in (first.id, -1)
        yield story.more_committed()

    Story(seed).play_script(script)


@pytest.mark.parametrize("seed", range(3))
def test_v3_leadership_has_moved_when_a_broker_ends(seed: int) -> None:
    """V3, V5, C213: after its restart it is unfenced again."""

    def script(story: Story) -> Iterator[Goal]:
        old = story.broker
        old.shut_down()
        yield Goal("the broker has stopped", lambda: old.core is None, LIMIT_MS)
        assert story.partition.leader not in (old.id, -1)
        assert old.id not in story.partition.isr
        yield story.more_committed()

    assert Story(seed).play_script(script).coverage["clean shutdown"] > 0


def test_v17_a_broker_that_applies_nothing_is_behind() -> None:
    """V17, C214: from its heartbeats the controller measures its lag, and logs that once."""

    def script(story: Story) -> Iterator[Goal]:
        slow, other = story.follower(0), story.follower(1)
        controller = story.controller.node.active_controller
        assert controller is not None
        sessions = controller.controller.sessions
        applier = slow.node.quorum.applier
        applier.is_applying = True  # as while a large batch is applied
        story.cut_connection(other, story.broker)  # so that there is a new record: the ISR shrinks
        yield Goal("the broker is behind", lambda: sessions.behind_ms(story.time) != [], LIMIT_MS)
        assert not story.image.brokers[slow.id].fenced
        yield time_passes(BEHIND_LIMIT_MS + 1000)
        assert not story.image.brokers[slow.id].fenced
        assert len(sessions.behind_ms(story.time)) == 1
        applier.is_applying = False
        applier.apply_committed()
        yield Goal(
            "the broker is no longer behind", lambda: sessions.behind_ms(story.time) == [], LIMIT_MS
        )

    lines: list[str] = []
    Story(1, separate=True, trace=lines.append).play_script(script)
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
    """V6, V15, V18: no seed fails, up to and with the first one that reaches the situation."""
    for seed in range(1, 20):
        outcome = simulate("cluster", seed, kinds=kinds)
        assert not outcome.failed, str(outcome)
        if situation in outcome.coverage:
            return
    raise AssertionError(f"never: {situation}")

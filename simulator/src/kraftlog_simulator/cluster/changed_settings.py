"""Faults that change what decides about commitment, while partitions are used (V20, V21)."""

from __future__ import annotations

from kraftlog.metadata.features import OFFERED
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.emptied_logs import when
from kraftlog_simulator.cluster.settings_administrator import (
    ALL_BROKERS,
    BROKER,
    SAFE_DOWNGRADE,
    TOPIC,
    UPGRADE,
)
from kraftlog_simulator.faults.fault_kinds import cut_for

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionKey, TopicImage
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

#: The settings of throttles: of one broker and of the topics' replicas on it.
THROTTLED = ("leader", "follower")
#: By how much a clock is wrong, at most: brokers refuse records of more than an hour later.
MAX_OFFSET_MS = 900_000
#: Bytes per second of a throttle.
RATE = (200, 20_000)
#: How long before a follower lags for too long the minimum is raised, and the leader's replay held.
BEFORE_LAG_MS = (0, 300)
#: How long the replay of a leader is held.
HELD_MS = (100, 900)


def _some_topic(world: ClusterWorld, rng: Rng) -> TopicImage | None:
    topics = list(world.image.topics.values())
    return rng.pick(topics) if topics else None


def change_minimum(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Set or delete min.insync.replicas of topics and of the cluster, a few times."""
    for _ in range(1 + rng.below(4)):
        world.schedule(world.time + rng.below(for_ms), _change_minimum, world, rng)


def _change_minimum(world: ClusterWorld, rng: Rng) -> None:
    topic = _some_topic(world, rng)
    if world.healed or topic is None:
        return
    minimum = 1 + rng.below(world.setting.replication)
    if rng.below(3):
        set_minimum(world, topic.name, rng.pick([minimum, minimum, None]))
    else:
        world.least_min_insync = 1
        world.settings.configure(BROKER, ALL_BROKERS, min_insync_replicas=minimum)


def set_minimum(world: ClusterWorld, topic: str, minimum: int | None) -> None:
    """Set a topic's min.insync.replicas, or delete it."""
    world.least_min_insync = 1
    world.saw("min.insync.replicas changed")
    world.settings.configure(TOPIC, topic, min_insync_replicas=minimum)


def change_levels(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Lower and raise the levels of features, a few times; some changes are refused."""
    for _ in range(1 + rng.below(4)):
        world.schedule(world.time + rng.below(for_ms), _change_level, world, rng)


def _change_level(world: ClusterWorld, rng: Rng) -> None:
    if world.healed:
        return
    feature = rng.pick([name for name, (lowest, highest) in OFFERED.items() if lowest < highest])
    lowest, highest = OFFERED[feature]
    level = rng.between(lowest, highest)
    current = world.image.features.get(feature, 0)
    world.saw(f"{feature} {'raised' if level > current else 'lowered'}")
    world.settings.set_level(feature, level, UPGRADE if level > current else SAFE_DOWNGRADE)


def step_clock(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """The wall clock of a machine is set forth and back, again and again."""
    victim = world.replicas[rng.below(len(world.replicas))]
    for _ in range(2 + rng.below(6)):
        offset_ms = (rng.below(2) * 2 - 1) * rng.below(MAX_OFFSET_MS)
        world.schedule(world.time + rng.below(for_ms), _step, world, victim, offset_ms)


def _step(world: ClusterWorld, victim: ClusterNode, offset_ms: int) -> None:
    if not world.healed:
        victim.wall_offset_ms = offset_ms
        victim.now_at = -1  # the clock is read again
        world.saw("wall clock stepped")


def throttle(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Throttle the replication of a topic, at all brokers, for a while."""
    topic = _some_topic(world, rng)
    if topic is None:
        return
    side = rng.pick(THROTTLED)
    world.settings.configure(TOPIC, topic.name, **{f"{side}_replication_throttled_replicas": "*"})
    for broker in world.setting.brokers:
        name = f"{side}_replication_throttled_rate"
        world.settings.configure(BROKER, str(broker), **{name: rng.between(*RATE)})
    world.throttled[topic.name, side] = None
    world.schedule(world.time + for_ms, end_throttles, world)


def end_throttles(world: ClusterWorld) -> None:
    """Delete all throttles."""
    for topic, side in world.throttled:
        world.settings.configure(TOPIC, topic, **{f"{side}_replication_throttled_replicas": None})
        for broker in world.setting.brokers:
            name = f"{side}_replication_throttled_rate"
            world.settings.configure(BROKER, str(broker), **{name: None})
    world.throttled.clear()


# The minimum and the ISR in one replay -----------------------------------------------------------


def raise_minimum(world: ClusterWorld, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - one interface for all faults
    """Raise the minimum while a follower leaves the ISR; the leader replays both in one batch.

    The follower is cut off from the leader alone, and what the leader receives of other nodes is
    held from before the change of the minimum until the change of the ISR is committed.
    """
    keys = [
        key
        for key, image in world.image.partitions.items()
        # a topic is removed before its partitions, which may take many turns
        if image.leader >= 0 and len(image.isr) > 1 and key[0] in world.image.topics
    ]
    if not keys:
        return
    key = rng.pick(keys)
    image, topic = world.image.partitions[key], world.image.topics[key[0]]
    set_minimum(world, topic.name, len(image.isr) - 1)
    leader = world.replicas[image.leader]
    follower = rng.pick([broker for broker in image.isr if broker != image.leader])
    lag_ms = world.setting.lag_ms
    cut_for(world, [(leader.id, follower), (follower, leader.id)], lag_ms + 1500)
    before_ms = lag_ms - min(rng.between(*BEFORE_LAG_MS), lag_ms)
    world.schedule(world.time + before_ms, _raise, world, rng, key, leader, len(image.isr))


def _raise(
    world: ClusterWorld, rng: Rng, key: PartitionKey, leader: ClusterNode, minimum: int
) -> None:
    image, topic = world.image.partitions.get(key), world.image.topics.get(key[0])
    if world.healed or image is None or topic is None:
        return
    if image.leader != leader.id or len(image.isr) != minimum:
        return
    until = world.time + rng.between(*HELD_MS)
    world.network.calm = False
    for other in world.replicas:
        if other != leader.id:
            world.network.clogged[other, leader.id] = until
    set_minimum(world, topic.name, minimum)
    committed = world.committed(key)

    def has_shrunk() -> bool:
        newest = world.image.partitions.get(key)
        return world.time >= until or newest is None or len(newest.isr) < minimum

    def kill_after_commit() -> None:
        mark = committed.high_watermark
        when(world, lambda: committed.high_watermark > mark, lambda: _kill(world, rng, leader))

    when(world, has_shrunk, kill_after_commit)


def _kill(world: ClusterWorld, rng: Rng, leader: ClusterNode) -> None:
    world.kill(leader)
    world.schedule(world.time + 500 + rng.below(3000), world.start, leader)

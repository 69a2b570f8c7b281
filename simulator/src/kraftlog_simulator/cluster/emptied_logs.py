"""A follower with an emptied log is down while its partition is removed and added again (V11, V23).

Its log has no records of the removed partition, and so no epochs: nothing in it but its offset
tells that it is of another partition.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.metadata.values import PartitionKey
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

#: How often a condition is checked, and how long it may take to be met.
CHECK_MS, WAIT_MS = 5, 2500
#: For how long the follower may be up between two restarts with its emptied log.
UP_MS = 300


def when(
    world: ClusterWorld, condition: Callable[[], bool], act: Callable[[], None], by_ms: int = -1
) -> None:
    """Act once a condition is met, or after a while."""
    if by_ms < 0:
        by_ms = world.time + WAIT_MS
    if world.healed:
        return
    if condition() or world.time >= by_ms:
        act()
    else:
        world.schedule(world.time + CHECK_MS, when, world, condition, act, by_ms)


def empty_log(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Delete the records of a topic's last partition, restart a follower, and add it again."""
    keys = [
        (topic.id, topic.partition_count - 1)
        for topic in world.image.topics.values()
        if (topic.id, topic.partition_count - 1) in world.keys
    ]
    if keys:
        _EmptiedLog(world, rng, rng.pick(keys), for_ms).begin()


class _EmptiedLog:
    """One such fault; each method leads to the next."""

    def __init__(self, world: ClusterWorld, rng: Rng, key: PartitionKey, for_ms: int) -> None:
        self._world = world
        self._rng = rng
        self._key = key
        self._for_ms = for_ms
        self._old_end = 0
        self._restarts = rng.below(3)

    def begin(self) -> None:
        """A topic with a single partition gets another one first."""
        topic_id, index = self._key
        if index == 0:
            self._key = topic_id, 1
            self._world.partitions.set_count(topic_id, 2)
        when(self._world, lambda: self._end > 0, self._delete)

    @property
    def _end(self) -> int:
        return self._world.read_up_to(self._key)

    def _delete(self) -> None:
        image = self._world.image.partitions.get(self._key)
        followers = [broker for broker in image.isr if broker != image.leader] if image else []
        if not followers:
            return
        victim = self._world.replicas[self._rng.pick(followers)]
        self._world.deleter.delete_all(self._key)
        when(self._world, lambda: self._is_empty(victim), lambda: self._stop(victim))

    def _is_empty(self, victim: ClusterNode) -> bool:
        log = victim.logs.get(self._key)
        return log is not None and log.start == log.end > 0

    def _stop(self, victim: ClusterNode) -> None:
        """Stop the follower, and start it again a few times: each finds an empty log."""
        world = self._world
        if world.healed or not self._is_empty(victim):
            return
        self._old_end = victim.logs[self._key].end
        world.kill(victim)
        if victim.core is not None:
            return  # its end was postponed
        if self._restarts:
            self._restarts -= 1
            world.start(victim)
            up_ms = world.time + 1 + self._rng.below(UP_MS)
            world.schedule(up_ms, self._stop, victim)
            return
        world.saw("follower stopped with an emptied log")
        topic_id, index = self._key
        world.partitions.set_count(topic_id, index)
        when(world, lambda: self._key not in world.image.partitions, lambda: self._add(victim))

    def _add(self, victim: ClusterNode) -> None:
        """Add the partition again, and start the follower when it has as many records as before."""
        world, key = self._world, self._key
        if key in world.image.partitions:
            world.start(victim)
            return
        world.partitions.set_count(key[0], key[1] + 1)
        enough = self._old_end + self._rng.below(4) - 1

        def has_enough() -> bool:
            image = world.image.partitions.get(key)
            return image is not None and world.committed(key).high_watermark >= enough

        when(world, has_enough, lambda: world.start(victim))

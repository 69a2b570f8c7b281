"""An operator gives up the disks of all in-sync replicas, and later they are back (V19).

A replica that has left the ISR leads from then on. The others have records that nobody will ever
read, and take the new leader's. Only named faults include this one: see `faults.DIRECTED_KINDS`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.directory_moves import bring_back_at, log_of
from kraftlog_simulator.cluster.emptied_logs import when

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

#: For how many times the allowed lag a follower may take to leave the ISR.
WAIT_LAGS = 3
#: By how much longer than the fault a disk is away, at most.
AWAY_MS = 3000


def elect_without_disks(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Cut a follower off until it leaves the ISR; it is elected while the ISR has no disks."""
    keys = [
        key
        for key, image in world.image.partitions.items()
        if len(image.isr) > 1 and all(_may_lose(world, broker, key) for broker in image.isr)
    ]
    if keys:
        _Election(world, rng, rng.pick(keys), for_ms).begin()


def _may_lose(world: ClusterWorld, broker: int, key: PartitionKey) -> bool:
    """Whether a broker's log can be taken away without a disk that the quorum needs."""
    log = log_of(world, world.replicas[broker], key)
    in_own_directory = log is not None and log[1] != world.metadata_directory
    return in_own_directory or broker >= world.setting.voters


class _Election:
    """One such fault; each method leads to the next, if the partition is as it should be."""

    def __init__(self, world: ClusterWorld, rng: Rng, key: PartitionKey, for_ms: int) -> None:
        self._world = world
        self._rng = rng
        self._key = key
        self._for_ms = for_ms
        image = world.image.partitions[key]
        self._follower = rng.pick([broker for broker in image.isr if broker != image.leader])
        others = [broker for broker in image.replicas if broker != self._follower]
        self._cuts = {(self._follower, broker) for broker in others}
        self._cuts |= {(broker, self._follower) for broker in others}

    def begin(self) -> None:
        world = self._world
        world.network.calm = False
        world.network.cuts.update(self._cuts)
        by_ms = world.time + WAIT_LAGS * world.setting.lag_ms
        when(world, lambda: self._is_out(self._image), self._take_disks, by_ms)

    @property
    def _image(self) -> PartitionImage | None:
        return self._world.image.partitions.get(self._key)

    def _is_out(self, image: PartitionImage | None) -> bool:
        return image is not None and bool(image.isr) and self._follower not in image.isr

    def _take_disks(self) -> None:
        """The disks of the ISR fail, or machines that have nothing but them lose power."""
        world, image = self._world, self._image
        world.network.cuts.difference_update(self._cuts)
        if image is None or not self._is_out(image):
            return
        if all(_may_lose(world, broker, self._key) for broker in image.isr):
            for broker in image.isr:
                self._lose(broker)
            when(world, lambda: self._is_leaderless, self._elect)

    def _lose(self, broker: int) -> None:
        """Take a broker's log away for a while."""
        world, victim = self._world, self._world.replicas[broker]
        log = log_of(world, victim, self._key)
        back_ms = world.time + self._for_ms + self._rng.below(AWAY_MS)
        if log is None or log[1] == world.metadata_directory:
            world.lose_power(victim)
            world.schedule(back_ms, world.start, victim)
            return
        victim.files.broken.add(log[1])
        bring_back_at(world, self._rng, victim, log[1], back_ms)

    @property
    def _is_leaderless(self) -> bool:
        image = self._image
        return image is not None and image.leader < 0

    def _elect(self) -> None:
        if self._is_leaderless and not self._world.healed:
            self._world.saw("unclean election while disks are away")
            self._world.kept.unclean.add(self._key)
            self._world.operator.elect_leaders([self._key])

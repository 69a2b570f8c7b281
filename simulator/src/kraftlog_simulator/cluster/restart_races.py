"""A follower restarts without its log while the proposal to let it join is late (V8, V23).

Only named faults include this one: see `faults.DIRECTED_KINDS`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.emptied_logs import when
from kraftlog_simulator.cluster.lost_logs import delete_log
from kraftlog_simulator.faults.fault_kinds import cut_for

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionKey
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

#: For how many times the allowed lag a follower may take to leave the ISR, or to join it.
WAIT_LAGS = 3


def race_restart(world: ClusterWorld, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - one interface for all faults
    """Cut a follower off until it leaves the ISR; restart it when its leader lets it join."""
    keys = [
        key
        for key, image in world.image.partitions.items()
        if image.leader >= world.setting.voters and len(image.isr) > 1
    ]
    if keys:
        _RestartRace(world, rng, rng.pick(keys)).begin()


class _RestartRace:
    """One such fault; each method leads to the next, if the partition is as it should be."""

    def __init__(self, world: ClusterWorld, rng: Rng, key: PartitionKey) -> None:
        self._world = world
        self._key = key
        image = world.image.partitions[key]
        self._leader = leader = image.leader
        follower = rng.pick([broker for broker in image.isr if broker != leader])
        self._follower = world.replicas[follower]
        self._directions = [(leader, follower), (follower, leader)]
        #: For how long the proposal is on its way; the leader's session must not end meanwhile.
        self._late_ms = rng.between(world.setting.session_ms // 4, world.setting.session_ms // 2)

    def begin(self) -> None:
        world = self._world
        world.network.calm = False
        world.network.cuts.update(self._directions)

        def let_join() -> None:
            world.network.cuts.difference_update(self._directions)
            if self._is_out():
                world.late_requests.on_proposal[self._leader] = self._hold

        when(world, self._is_out, let_join, world.time + WAIT_LAGS * world.setting.lag_ms)

    def _is_out(self) -> bool:
        image = self._world.image.partitions.get(self._key)
        return (
            image is not None
            and image.leader == self._leader
            and self._follower.id not in image.isr
        )

    def _hold(self) -> None:
        """What the leader sends to controllers from now on is late."""
        world = self._world
        if not self._is_joining():
            world.late_requests.on_proposal[self._leader] = self._hold
            return
        for controller in range(world.setting.voters):
            world.network.clogged[self._leader, controller] = world.time + self._late_ms
        world.schedule(world.time, self._restart)

    def _is_joining(self) -> bool:
        proposal = self._world.late_requests.proposals[self._leader]
        return any(
            (topic.topic_id, partition.partition_index) == self._key
            and any(
                member.broker_id == self._follower.id for member in partition.new_isr_with_epochs
            )
            for topic in proposal.topics
            for partition in topic.partitions
        )

    def _restart(self) -> None:
        """It registers again, and cannot fetch what it lacks before the proposal has arrived."""
        world, follower = self._world, self._follower
        if world.healed:
            return
        world.kill(follower)
        if follower.core is None and delete_log(world, follower, self._key):
            world.saw("follower lost its log as it joined the ISR")
        cut_for(world, self._directions, 2 * self._late_ms)
        world.start(follower)

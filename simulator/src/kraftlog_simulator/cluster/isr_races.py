"""A follower joins an ISR and is cut off, while the leader or the controller is late (V1, V7).

Only named faults include this one: see `faults.DIRECTED_KINDS`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.cluster.emptied_logs import when

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.metadata.values import PartitionKey
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

#: For how many times the allowed lag the leader does not learn of the new ISR.
HELD_LAGS = 3
#: For how long a killed leader is down.
DOWN_MS = (300, 2000)


def race_isr(world: ClusterWorld, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - one interface for all faults
    """Cut a follower off until it leaves the ISR, let it join, and cut it off again."""
    keys = [
        key
        for key, image in world.image.partitions.items()
        if image.leader >= world.setting.voters and len(image.isr) > 1
    ]
    if keys:
        _IsrRace(world, rng, rng.pick(keys)).begin()


class _IsrRace:
    """One such fault; each method leads to the next, if the partition is as it should be."""

    def __init__(self, world: ClusterWorld, rng: Rng, key: PartitionKey) -> None:
        self._world = world
        self._rng = rng
        self._key = key
        image = world.image.partitions[key]
        self._epoch = image.leader_epoch
        self._leader = image.leader
        self._follower = rng.pick([broker for broker in image.isr if broker != image.leader])
        #: Whether the leader learns late of the ISR; otherwise its proposal arrives again, late.
        self._is_leader_late = rng.below(2) == 1
        self._mark = 0

    def begin(self) -> None:
        self._cut()
        self._when(self._is_out, self._let_join)

    def _let_join(self) -> None:
        world = self._world
        if not self._is_out():
            return
        if self._is_leader_late:
            world.late_requests.on_proposal[self._leader] = self._hold_leader
        world.network.cuts -= self._directions
        self._when(self._is_in, self._cut_again)

    def _hold_leader(self) -> None:
        """The leader proposes its ISR, and receives nothing of controllers from now on."""
        world = self._world
        until = world.time + HELD_LAGS * world.setting.lag_ms
        for controller in range(world.setting.voters):
            world.network.clogged[controller, self._leader] = until

    def _cut_again(self) -> None:
        if not self._is_in():
            return
        world = self._world
        self._cut()
        self._mark = world.committed(self._key).high_watermark
        if self._is_leader_late:
            world.saw("ISR grew before its leader knew")
            self._when(self._has_committed, self._kill_leader)
            return
        proposal = world.late_requests.proposals[self._leader]
        self._when(self._is_out, lambda: self._repeat_after_commit(proposal))

    def _repeat_after_commit(self, proposal: object) -> None:
        world = self._world
        self._mark = world.committed(self._key).high_watermark
        self._when(
            self._has_committed,
            lambda: world.late_requests.arrive(ApiKey.ALTER_PARTITION, proposal),
        )

    def _kill_leader(self) -> None:
        world, leader = self._world, self._world.replicas[self._leader]
        world.kill(leader)
        world.schedule(world.time + self._rng.between(*DOWN_MS), world.start, leader)
        world.network.cuts -= self._directions

    def _when(self, condition: Callable[[], bool], act: Callable[[], None]) -> None:
        """Act once a condition is met; a follower leaves the ISR some time after the lag."""
        world = self._world
        when(world, condition, act, world.time + HELD_LAGS * world.setting.lag_ms)

    # Conditions ----------------------------------------------------------------------------------

    @property
    def _directions(self) -> set[tuple[int, int]]:
        return {(self._leader, self._follower), (self._follower, self._leader)}

    def _cut(self) -> None:
        for source, target in sorted(self._directions):
            self._world.network.cut([source], [target])

    def _is_in(self) -> bool:
        image = self._world.image.partitions.get(self._key)
        return (
            image is not None
            and image.leader_epoch == self._epoch
            and self._follower in image.isr
            and self._leader in self._world.late_requests.proposals
        )

    def _is_out(self) -> bool:
        image = self._world.image.partitions.get(self._key)
        return (
            image is not None
            and image.leader_epoch == self._epoch
            and self._follower not in image.isr
        )

    def _has_committed(self) -> bool:
        return self._world.committed(self._key).high_watermark > self._mark

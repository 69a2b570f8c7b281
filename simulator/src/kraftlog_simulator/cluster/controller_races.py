"""A controller leads that has learned of a broker's restart from a snapshot (V2, V23).

It has seen the former process of the broker end, but not the registration of the new one.
Only named faults include this one: see `faults.DIRECTED_KINDS`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.emptied_logs import when
from kraftlog_simulator.faults.fault_kinds import resume

if TYPE_CHECKING:
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng


#: How long after the election of its successor a controller restarts: the others have noticed its
#: end, by connections that it refuses.
NOTICED_MS = 20, 200
#: For how long a controller is paused when its leader is killed.
PAUSED_MS = 50, 400


def race_controllers(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Kill the active controller, a broker; restart it, and let a third controller lead."""
    leader = world.leader()
    if leader is None or leader.core is None or not world.setting.snapshot_bytes:
        return
    if leader.id in world.image.brokers:
        _ControllerRace(world, rng, world.replicas[leader.id], for_ms).begin()


class _ControllerRace:
    """One such fault; each method leads to the next, if the one before had its effect."""

    def __init__(self, world: ClusterWorld, rng: Rng, first: ClusterNode, for_ms: int) -> None:
        self._world = world
        self._rng = rng
        self._for_ms = for_ms
        self._first = first
        self._first_epoch = world.image.brokers[first.id].epoch
        self._second = self._third = first
        self._cuts: list[tuple[int, int]] = []

    def begin(self) -> None:
        self._world.kill(self._first)
        if self._first.core is None:  # otherwise its end was postponed
            when(self._world, self._has_second, self._restart_first_soon)

    def _has_second(self) -> bool:
        leader = self._world.leader()
        return leader is not None and leader.core is not None and leader.id != self._first.id

    def _restart_first_soon(self) -> None:
        world = self._world
        world.schedule(world.time + self._rng.between(*NOTICED_MS), self._restart_first)

    def _restart_first(self) -> None:
        """Restart it while another controller, which has noticed its end, is cut off."""
        world, first = self._world, self._first
        world.start(first)
        if world.healed or not self._has_second():
            return
        leader = world.leader()
        assert leader is not None
        self._second = world.replicas[leader.id]
        others = [world.replicas[number] for number in range(world.setting.voters)]
        others = [each for each in others if each not in (first, self._second)]
        self._third = self._rng.pick(others)
        third = self._third.id
        self._cuts = [
            pair
            for each in world.replicas
            if each != third
            for pair in ((each, third), (third, each))
        ]
        world.network.calm = False
        world.network.cuts.update(self._cuts)
        when(world, self._needs_snapshot, self._reconnect)

    def _needs_snapshot(self) -> bool:
        """Whether the third controller can only learn from a snapshot that the first is back."""
        return self._is_back() and self._second.disk.start > self._third.disk.end

    def _is_back(self) -> bool:
        broker = self._world.image.brokers[self._first.id]
        return broker.epoch > self._first_epoch and not broker.fenced

    def _reconnect(self) -> None:
        self._world.network.cuts.difference_update(self._cuts)
        when(self._world, self._has_caught_up, self._kill_second)

    def _has_caught_up(self) -> bool:
        broker = self._third.core and self._third.node.image.brokers.get(self._first.id)
        return bool(broker and broker.epoch > self._first_epoch and not broker.fenced)

    def _kill_second(self) -> None:
        world, second = self._world, self._second
        if self._has_caught_up():
            world.saw("controller learned of a restart from a snapshot")
            # The first controller, which is paused, does not notice before the third does.
            first, paused_ms = self._first, self._rng.between(*PAUSED_MS)
            if first.core is not None and not first.paused:
                first.paused = True
                world.schedule(world.time + paused_ms, resume, first, first.incarnation)
            world.kill(second)
            world.schedule(world.time + self._rng.below(self._for_ms), world.start, second)

"""Moves of logs between the directories of a broker, while either disk may fail (V18, V22)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.emptied_logs import when
from kraftlog_simulator.faults.fault_kinds import cut_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.types import LogName
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

#: How long the other replicas are down before the move begins, so that the ISR shrinks.
ALONE_MS = (0, 2500)
#: How long after a move began, or completed, a disk fails.
UNTIL_FAILURE_MS = 60
#: How long the broker is down after that.
DOWN_MS = (10, 1500)
#: By how much longer than the fault a disk is away, at most.
AWAY_MS = 4000


def move_log(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Move a log to another directory; usually one of both disks fails, and the broker restarts."""
    keys = [key for key, image in world.image.partitions.items() if image.leader >= 0]
    if world.setting.log_directories > 1 and keys:
        _Move(world, rng, rng.pick(keys), for_ms).begin()


def fail_directory(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """One disk of a broker with several fails for a while; then the broker restarts."""
    if world.setting.log_directories > 1:
        victim = world.replicas[rng.pick(world.setting.brokers)]
        _fail(world, rng, victim, rng.pick(world.directories_of(victim)[1:]), for_ms)


def lose_power_after_move(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """Move a log of an ISR member, whose machine loses power just after the log has moved (V22).

    Only named faults include this one: see `faults.DIRECTED_KINDS`.
    """
    keys = [key for key, image in world.image.partitions.items() if image.isr]
    if world.setting.log_directories == 1 or not keys:
        return
    key = rng.pick(keys)
    victim = world.replicas[rng.pick(world.image.partitions[key].isr)]
    log = log_of(world, victim, key)
    if log is None:
        return
    name, source = log
    target = rng.pick([path for path in world.directories_of(victim) if path != source])

    def lose_power() -> None:
        if not world.healed:
            world.saw("power lost after a move")
            world.lose_power(victim)
            world.schedule(world.time + rng.below(for_ms), world.start, victim)

    def lose_power_soon() -> None:
        world.schedule(world.time + rng.below(UNTIL_FAILURE_MS), lose_power)

    when(world, _request_move(world, victim, name, target), lose_power_soon)


def log_of(
    world: ClusterWorld, victim: ClusterNode, key: PartitionKey
) -> tuple[LogName, str] | None:
    """The name and directory of a running broker's log, if it has one."""
    topic = world.image.topics.get(key[0])
    if world.healed or topic is None or victim.core is None or victim.paused:
        return None
    name = topic.name, key[1]
    directory = victim.runner.logs.directory_of(name)
    return None if directory is None else (name, directory.path)


def _request_move(
    world: ClusterWorld, victim: ClusterNode, name: LogName, target: str
) -> Callable[[], bool]:
    """Request the move of a log; return whether it has moved, or its process has ended."""
    world.operator.move_log(victim.id, target, *name)

    def is_moved() -> bool:
        if victim.core is None:
            return True
        now_in = victim.runner.logs.directory_of(name)
        return now_in is not None and now_in.path == target

    return is_moved


class _Move:
    """One such fault; each method leads to the next."""

    def __init__(self, world: ClusterWorld, rng: Rng, key: PartitionKey, for_ms: int) -> None:
        self._world = world
        self._rng = rng
        self._key = key
        self._for_ms = for_ms
        image = world.image.partitions[key]
        broker = image.leader if rng.below(2) else rng.pick(image.replicas)
        self._victim: ClusterNode = world.replicas[broker]

    def begin(self) -> None:
        """Often the other replicas are down, and the controller is out of reach."""
        world, rng, alone_ms = self._world, self._rng, 0
        if rng.below(3):
            alone_ms = rng.between(*ALONE_MS)
            for broker in world.image.partitions[self._key].replicas:
                if broker != self._victim.id:
                    other = world.replicas[broker]
                    world.kill(other)
                    up_ms = world.time + alone_ms + 500 + rng.below(self._for_ms + 1)
                    world.schedule(up_ms, world.start, other)
        world.schedule(world.time + alone_ms, self._move)

    def _move(self) -> None:
        world, rng, victim = self._world, self._rng, self._victim
        log = log_of(world, victim, self._key)
        if log is None:
            return
        name, source = log
        target = rng.pick([path for path in world.directories_of(victim) if path != source])
        if rng.below(2):
            others = [other for other in world.replicas if other != victim.id]
            cuts = [(victim.id, other) for other in others]
            cut_for(world, cuts, 100 + rng.below(1000))
        is_moved = _request_move(world, victim, name, target)
        path = rng.pick([source, target, target, target, ""])
        if path:
            is_done = is_moved if rng.below(3) else _at_once
            when(world, is_done, lambda: self._fail_soon(path))

    def _fail_soon(self, path: str) -> None:
        world, rng = self._world, self._rng
        delay_ms = rng.below(UNTIL_FAILURE_MS) if rng.below(2) else 0
        world.schedule(world.time + delay_ms, _fail, world, rng, self._victim, path, self._for_ms)


def _at_once() -> bool:
    return True


def _fail(world: ClusterWorld, rng: Rng, victim: ClusterNode, path: str, for_ms: int) -> None:
    """A disk fails; the broker may restart without it, and always restarts when it is back."""
    if world.healed:
        return
    world.saw("log directory failed")
    victim.files.broken.add(path)
    if rng.below(4):
        world.kill(victim)
        world.schedule(world.time + rng.between(*DOWN_MS), world.start, victim)

    bring_back_at(world, rng, victim, path, world.time + for_ms + rng.below(AWAY_MS))


def bring_back_at(
    world: ClusterWorld, rng: Rng, victim: ClusterNode, path: str, time_ms: int
) -> None:
    """A disk is back at that time, and its broker restarts."""
    files = victim.files

    def bring_back() -> None:
        files.broken.discard(path)
        if victim.files is files and not world.healed:
            world.kill(victim)
            world.schedule(world.time + rng.below(300), world.start, victim)

    world.schedule(time_ms, bring_back)

"""Snapshot scenarios: lagging replicas, leader changes during downloads, restarts."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.scenarios.goals import (
    all_reached,
    any_reached,
    begin,
    heal_and_serve,
    highest_high_watermark,
    leader_of,
    log_end,
    majority_continues,
)
from kraftlog_simulator.setting import KAFKA_TIMES, Setting
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.scenarios.goals import Script
    from kraftlog_simulator.world import World

#: So small that every snapshot has several chunks.
SMALL_CHUNK_BYTES = 20
#: Long enough for another leader to be elected and followed.
SLOW_INSTALL_MS = 1000


def in_small_chunks(min_voters: int) -> Callable[[Rng], Setting]:
    """Draw settings with this many voters or more; in most runs, snapshots have small chunks."""

    def draw(rng: Rng) -> Setting:
        return Setting(
            voters=rng.between(min_voters, 5),
            observers=rng.below(3),
            raft=KAFKA_TIMES,
            append_gap_ms=(5, 20),
            disk_ms=rng.pick([(0, 0), (1, 10)]),
            chunk_bytes=rng.pick([SMALL_CHUNK_BYTES, 2 * SMALL_CHUNK_BYTES, 1000]),
        )

    return draw


def in_smallest_chunks(rng: Rng) -> Setting:
    return in_small_chunks(3)(rng).replace(chunk_bytes=SMALL_CHUNK_BYTES)


def take_snapshots(world: World, except_for: Replica | None = None) -> Goal:
    """All running replicas but `except_for` take a snapshot and drop the log before it."""
    takers = [replica for replica in world.running if replica is not except_for]
    applied = {replica.id: replica.applied for replica in takers}
    for replica in takers:
        replica.take_snapshot()

    def met() -> bool:
        return all(
            r.core is not None and (r.core.log.start > 0 or not applied[r.id]) for r in takers
        )

    return Goal("all have taken a snapshot", met, 5000)


def fall_behind(world: World) -> Iterator[Goal]:
    """One replica is cut off while the others commit, take snapshots and delete older records."""
    yield from begin(world)
    yield any_reached(world, 10)
    victim = some_follower(world)
    world.network.isolate(victim.id)
    others = [replica_id for replica_id in world.replicas if replica_id != victim.id]
    yield all_reached(world, log_end(world) + 20, others)
    yield take_snapshots(world, victim)


def some_follower(world: World) -> Replica:
    leader = leader_of(world)
    return world.rng("script").pick([r for r in world.replicas.values() if r is not leader])


def lagging_replica(world: World) -> Replica:
    """The only running replica without a snapshot."""
    (victim,) = [
        replica for replica in world.running if replica.core and not replica.core.log.start
    ]
    return victim


def expect_coverage(world: World, what: str) -> None:
    assert what in world.coverage, f"not reached: {what}"


def snapshot_install(world: World) -> Iterator[Goal]:
    """Q38: a replica that needs records before the others' log start gets a snapshot."""
    yield from fall_behind(world)
    world.network.heal()
    yield all_reached(world, log_end(world))
    expect_coverage(world, "snapshot installed")
    yield from heal_and_serve(world)


def snapshot_race(world: World) -> Iterator[Goal]:
    """Q38: the leader changes during a download; the chunks of two leaders are never mixed."""
    yield from fall_behind(world)
    victim = lagging_replica(world)
    world.network.heal()
    yield Goal("a download has begun", lambda: victim.disk.download is not None, 60_000)
    rng, leader = world.rng("script"), leader_of(world)
    choice = rng.below(6)
    if choice >= 4 and world.installs_slowly:
        world.slow_disks[victim.id] = SLOW_INSTALL_MS
        yield Goal(
            "the download is complete", lambda: victim.snapshots.installing is not None, 60_000
        )
        leader.shut_down()
    elif choice == 0:
        world.network.isolate(leader.id)
    elif choice == 1:
        world.kill(leader)
    elif choice in {2, 4, 5}:
        leader.shut_down()
    else:
        world.network.reset(victim, leader)
    yield time_passes(rng.below(200))
    yield all_reached(world, highest_high_watermark(world) + 10, [victim.id])
    expect_coverage(world, "snapshot installed")
    yield from heal_and_serve(world)


def crash_while_installing(world: World) -> Iterator[Goal]:
    """Q38, Q8: the process crashes between any two steps of installing a snapshot."""
    yield from fall_behind(world)
    victim = lagging_replica(world)
    world.crash_permille[victim.id] = 10
    world.network.heal()
    yield all_reached(world, log_end(world), [victim.id])
    yield from heal_and_serve(world)


def all_killed_with_snapshots(world: World) -> Iterator[Goal]:
    """Q8, Q38: all stop, and a majority continues from snapshots and the records after them."""
    yield from begin(world)
    yield any_reached(world, 10)
    yield take_snapshots(world)
    yield any_reached(world, highest_high_watermark(world) + world.rng("script").below(20))
    yield majority_continues(world)
    yield from heal_and_serve(world)


SNAPSHOT_SCENARIOS: dict[str, tuple[Callable[[Rng], Setting], Script]] = {
    "snapshot-install": (in_small_chunks(3), snapshot_install),
    "snapshot-race": (in_smallest_chunks, snapshot_race),
    "snapshot-crash": (in_small_chunks(3), crash_while_installing),
    "all-killed-with-snapshots": (in_small_chunks(1), all_killed_with_snapshots),
}

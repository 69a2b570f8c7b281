"""Scenarios for whole nodes only: damaged files, changed addresses, reads of configs."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.faults.survivable import may_forget
from kraftlog_simulator.nodes import disks
from kraftlog_simulator.nodes.moving import moved_voters
from kraftlog_simulator.nodes.readers import NodeReaders
from kraftlog_simulator.scenarios.catalog import mixture
from kraftlog_simulator.scenarios.goals import HEALING_MS, all_reached, heal_and_serve, log_end
from kraftlog_simulator.scenarios.snapshot_scenarios import (
    expect_coverage,
    fall_behind,
    in_small_chunks,
    lagging_replica,
)
from kraftlog_simulator.scenarios.voter_scenarios import reassign_midway
from kraftlog_simulator.setting import any_setting, fixed_setting
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.scenarios.goals import Script
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.world import World


#: How many of a thousand responses are corrupted.
CORRUPT_PERMILLE = 250


def lost_checkpoint(world: World) -> Iterator[Goal]:
    """Q38: a node refuses to start if the snapshot before the start of its log is missing."""
    yield from fall_behind(world)
    victim = lagging_replica(world)
    world.network.heal()
    yield all_reached(world, log_end(world))
    expect_coverage(world, "snapshot installed")
    world.kill(victim)
    disks.lose_snapshots(victim.files)  # type: ignore[attr-defined]  # it is a whole node
    world.start(victim)
    if victim.core is not None:
        raise Violation("storage", f"{victim} starts without its checkpoint")
    world.saw("start refused")
    yield Goal(
        "the quorum can lose the directory", lambda: may_forget(world, victim, 0), HEALING_MS
    )
    victim.lose_disk(0)
    world.start(victim)
    yield from heal_and_serve(world)


def garbled_snapshot(world: World) -> Iterator[Goal]:
    """Q38: a snapshot that is corrupted in transit is not used, and is fetched again."""
    yield from fall_behind(world)
    world.network.heal()
    world.network.calm, world.network.corrupt_permille = False, CORRUPT_PERMILLE
    yield all_reached(world, log_end(world))
    yield from heal_and_serve(world)


def reads_anywhere(world: World) -> Iterator[Goal]:
    """P6, P7: the mixture with clients that read at every node; in the end all nodes respond."""
    readers = NodeReaders(world)  # type: ignore[arg-type]  # its replicas are whole nodes
    yield from mixture(world)
    world.workload.stop()
    yield time_passes(world.setting.raft.read_timeout_ms + world.setting.request_timeout_ms)
    for replica in list(world.running):
        reads = readers.reads_done
        readers.read_at(replica)
        yield Goal(
            f"{replica} answers a read",
            lambda reads=reads: readers.reads_done > reads,
            HEALING_MS,
        )


def dynamic_voters_setting(rng: Rng) -> Setting:
    """Voters are known by directory id, so one that lost its disk counts as another replica."""
    return in_small_chunks(3)(rng).replace(dynamic=True)


NODE_SCENARIOS: dict[str, tuple[Callable[[Rng], Setting], Script]] = {
    # With configured voters the other nodes are brokers, which can't become voters.
    "reassign-midway": (fixed_setting(3, 3, dynamic=True), reassign_midway),
    "moved-voters": (fixed_setting(3, 0, dynamic=True), moved_voters),
    "lost-checkpoint": (dynamic_voters_setting, lost_checkpoint),
    "reads-anywhere": (any_setting, reads_anywhere),
    "garbled-snapshot": (in_small_chunks(3), garbled_snapshot),
}

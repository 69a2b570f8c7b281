"""Scripts about a leader that hears from too few voters, or from some that do not count (Q11)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.scenarios.goals import (
    all_reached,
    begin,
    heal_and_serve,
    leader_agreed,
    leader_of,
)
from kraftlog_simulator.scenarios.voter_scenarios import removal_of, voters_of
from kraftlog_simulator.setting import fixed_setting
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.scenarios.goals import Script
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.world import World

#: How late the copies of old fetches arrive: some when their leader leads again, in a newer epoch,
#: and has heard of no voter for longer than it may lead.
VERY_LATE_MS = 12_000
#: How many leaders restart, at most, until the first one leads again; else another is cut off.
MOST_RESTARTS = 12
#: For how long fetches are copied.
COPYING_MS = 2000
#: How long after the last message of a majority a leader may lead, beside its timeout.
TOLERANCE_MS = 50


def resigns(world: World, leader: Replica) -> Goal:
    """The leader notices in time that no majority follows it."""
    limit = world.setting.raft.fetch_timeout_ms * 3 // 2 + TOLERANCE_MS
    return Goal("the leader resigns", lambda: leader.id not in world.leaders, limit)


def restart(world: World, leader: Replica) -> Iterator[Goal]:
    world.kill(leader)
    world.start(leader)
    yield Goal("a leader of a newer epoch", lambda: world.leader() is not None, VERY_LATE_MS)


def late_fetches(world: World) -> Iterator[Goal]:
    """Q11, Q18: late fetches of an older epoch do not show a leader that voters follow it.

    Leaders restart until the first one leads again. Then it hears nobody but copies of the fetches
    that it has answered in its former epoch.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    old, network = leader_of(world), world.network
    network.calm = False
    network.duplicates, network.delay_ms = 1000, VERY_LATE_MS
    yield time_passes(COPYING_MS)
    network.duplicates = network.delay_ms = 0
    leader = old
    for _ in range(MOST_RESTARTS):  # until a leader that got fetches of an older epoch leads again
        yield from restart(world, leader)
        leader = leader_of(world)
        if leader is old:
            break
    old = leader
    network.isolate(old.id)
    for replica_id in [replica_id for replica_id in world.replicas if replica_id != old.id]:
        # The copies on their way arrive; what is sent from now on does not.
        network.cuts.discard((replica_id, old.id))
        network.clogged[replica_id, old.id] = world.time + 10 * VERY_LATE_MS
    yield resigns(world, old)
    yield from heal_and_serve(world)


def removes_itself_without_a_majority(world: World) -> Iterator[Goal]:
    """Q11, R5: a leader that is removing itself does not count itself among those that follow.

    Of the two voters that remain one is gone: the other is no majority of the new voters.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    old = leader_of(world)
    gone = world.rng("script").pick([i for i in range(world.setting.voters) if i != old.id])
    request = removal_of(world, old.id)
    world.kill(world.replicas[gone])
    world.administrator.request(request)
    yield Goal(
        "it is no voter any more", lambda: old.id not in voters_of(old).ids, TOLERANCE_MS * 10
    )
    yield resigns(world, old)
    world.start(world.replicas[gone])
    yield leader_agreed(world)
    yield from heal_and_serve(world)


CONTACT_SCENARIOS: dict[str, tuple[Callable[[Rng], Setting], Script]] = {
    "late-fetches": (fixed_setting(3, 0, request_timeout_ms=1000), late_fetches),
    "removes-itself-alone": (fixed_setting(3, 1, dynamic=True), removes_itself_without_a_majority),
}

"""Scripts for situations that random runs seldom reach: repeated divergence, late messages."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.scenarios.goals import (
    all_reached,
    any_reached,
    begin,
    converged,
    expect_to_stay,
    heal_and_serve,
    leader_agreed,
    leader_of,
    led_by_another,
)
from kraftlog_simulator.setting import kafka_setting, reading_setting
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.world import World

#: Duplicates are so late that the leader may have been deposed when they arrive.
LATE_MS = 4000
#: How long after the timeout of its request a late response arrives. By then the request has been
#: repeated after a backoff, and newer requests are in flight.
SOON_AFTER_RETRY_MS = (60, 125)


def light_load_setting(rng: Rng) -> Setting:
    return kafka_setting(3, 5, 1)(rng).replace(append_gap_ms=(10, 60))


def impatient_setting(rng: Rng) -> Setting:
    """Half of the runs have a request timeout below the fetch timeout: requests are repeated."""
    return reading_setting(rng).replace(request_timeout_ms=rng.pick([1000, 3000]))


def parted_logs(world: World) -> Iterator[Goal]:
    """Q19: leaders append records that no other replica gets, and return one by one."""
    yield from begin(world)
    yield any_reached(world, 10)
    rng = world.rng("script")
    for _ in range(2 + rng.below(4)):
        old = leader_of(world)
        world.network.isolate(old.id)
        # The old leader appends records that no other replica gets.
        yield time_passes(rng.below(2) * rng.below(2000))
        yield led_by_another(world, old)
        newer = leader_of(world)
        world.network.heal()
        if rng.below(3):
            world.network.isolate(newer.id)  # none of its records has been replicated
            yield led_by_another(world, newer)
            world.network.heal()
        yield time_passes(rng.below(500))
    yield from heal_and_serve(world)


def late_copies(world: World) -> Iterator[Goal]:
    """P5: a leader is deposed without knowing it; old fetches do not prove that it still leads."""
    yield from begin(world)
    yield any_reached(world, 10)
    network = world.network
    network.calm = False
    network.duplicates, network.delay_ms = 600, LATE_MS
    yield time_passes(500)
    network.delayed = 600
    yield time_passes(world.rng("script").between(300, 1500))
    network.duplicates = network.delayed = 0
    old = leader_of(world)
    network.cut([old.id], world.replicas)
    for other in world.replicas:
        network.clogged[other, old.id] = world.time + 2 * LATE_MS
    yield time_passes(2 * LATE_MS)
    yield from heal_and_serve(world)


def late_farewell(world: World) -> Iterator[Goal]:
    """Q17: a leader resigns; its EndQuorumEpoch arrives again when another leads."""
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    world.network.calm = False
    world.network.duplicates, world.network.delay_ms = 1000, LATE_MS
    old.shut_down()
    yield time_passes(20)
    world.network.duplicates = 0
    world.kill(old)
    yield led_by_another(world, old)
    world.start(old)
    yield leader_agreed(world)
    expect_to_stay(world, leader_of(world))
    yield time_passes(2 * LATE_MS)


def late_setting(rng: Rng) -> Setting:
    return light_load_setting(rng).replace(voters=3, observers=0, request_timeout_ms=1000)


def late_responses(world: World) -> Iterator[Goal]:
    """Q19: a "diverging" response arrives again, after the follower acknowledged newer records.

    The new leader needs the old one for a majority, so nothing is committed before the old one has
    fetched. The old leader's first fetch has timed out meanwhile, and newer ones are in flight.
    """
    yield from begin(world)
    yield any_reached(world, 10)
    old, network = leader_of(world), world.network
    network.isolate(old.id)
    yield led_by_another(world, old)
    third = next(r for r in world.replicas.values() if r not in {old, leader_of(world)})
    network.heal()
    network.isolate(third.id)
    network.late_responses, network.late_by_ms = 1000, SOON_AFTER_RETRY_MS
    seen = world.coverage.get("log diverges", 0)
    for _ in range(1000):
        if world.coverage.get("log diverges", 0) > seen:
            break
        yield time_passes(5)
    network.late_responses = 0
    yield time_passes(2 * world.setting.request_timeout_ms)
    yield from heal_and_serve(world)


def leader_seems_down(world: World) -> Iterator[Goal]:
    """One after the other, replicas believe that the running leader is down; none deposes it.

    The leader's next response proves that it runs. So a voter that is cut off later gets no votes.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    world.workload.stop()
    yield Goal("all logs are the same", lambda: converged(world), 5000)
    leader, fetch_timeout_ms = leader_of(world), world.setting.raft.fetch_timeout_ms
    others = [r for r in world.replicas.values() if r is not leader]
    expect_to_stay(world, leader)
    for other in others:
        world.network.refuse_falsely(other, leader)
        yield time_passes(fetch_timeout_ms)
    yield leader_agreed(world)
    voters = [r.id for r in others if r.id < world.setting.voters]
    cut_off = world.rng("script").pick(voters)
    world.network.cut([leader.id], [cut_off])
    world.network.cut([cut_off], [leader.id])
    yield time_passes(3 * fetch_timeout_ms)

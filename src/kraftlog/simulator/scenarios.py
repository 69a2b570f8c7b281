"""Named scenarios: those of Kafka's own simulation, some of our own, and the random mixture.

A scenario draws its setting from the seed; its script says what is done when, and what must come
of it. `docs/simulator.md` says where each comes from.
"""

from __future__ import annotations

from kraftlog.raft.config import RaftConfig
from kraftlog.simulator import faults
from kraftlog.simulator.chance import Chance
from kraftlog.simulator.invariants.stable_leader import StableLeader
from kraftlog.simulator.setting import KAFKA_TIMES, Setting
from kraftlog.simulator.world import Goal, World, passing
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kraftlog.simulator.replica import Replica

    Script = Callable[[World], Iterator[Goal]]

#: Kafka allows 500,000 events, about four minutes of its time.
PATIENCE_MS = 60_000
#: Faults have stopped: so soon everything must be well.
HEALING_MS = 20_000


# Goals -------------------------------------------------------------------------------------------


def leader_agreed(world: World) -> Goal:
    return Goal("all agree on a leader", lambda: world.agreed_leader() is not None, PATIENCE_MS)


def all_reached(world: World, offset: int, among: Iterable[int] | None = None) -> Goal:
    """Every running replica (of some) knows that everything before the offset is committed."""
    chosen = None if among is None else set(among)

    def met() -> bool:
        marks = world.high_watermarks()
        return all(mark >= offset for who, mark in marks.items() if chosen is None or who in chosen)

    return Goal(f"{sorted(chosen) if chosen else 'all'} commit {offset}", met, PATIENCE_MS)


def any_reached(world: World, offset: int) -> Goal:
    return Goal(
        f"some replica commits {offset}",
        lambda: max(world.high_watermarks().values(), default=0) >= offset,
        PATIENCE_MS,
    )


def led_by_another(world: World, old: Replica) -> Goal:
    def met() -> bool:
        leader = world.leader()
        return leader is not None and leader is not old

    return Goal(f"another than {old.id} leads", met, PATIENCE_MS)


def log_end(world: World) -> int:
    return max(replica.disk.end for replica in world.replicas.values())


def highest_mark(world: World, among: Iterable[int] | None = None) -> int:
    marks = world.high_watermarks()
    return max([marks.get(who, 0) for who in (among or marks)], default=0)


def leader_of(world: World) -> Replica:
    leader = world.leader()
    assert leader is not None, "the goal before was a leader"
    return leader


def begin(world: World) -> Iterator[Goal]:
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    yield leader_agreed(world)


# Kafka's scenarios --------------------------------------------------------------------------------


def initial_leader(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield all_reached(world, 10)


def leader_failure(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    if world.chance("script").below(2):
        old.shut_down()
        yield passing(10)
    world.kill(old)
    yield all_reached(world, 20)
    target = highest_mark(world) + 10
    world.start(old)
    yield all_reached(world, target)


def all_killed(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    target = highest_mark(world) + 10
    for replica in world.replicas.values():
        world.lose_power(replica)
    for replica_id in range(world.voters.majority):
        world.start(world.replicas[replica_id])
    yield all_reached(world, target)


def leader_partitioned(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    world.network.isolate(old.id)
    yield all_reached(world, 20, [who for who in world.replicas if who != old.id])


def majority_reachable(world: World) -> Iterator[Goal]:
    """Two of five voters are cut off from the other three; observers hear everybody."""
    yield from begin(world)
    yield any_reached(world, 10)
    world.network.cut([0, 1], [2, 3, 4])
    world.network.cut([2, 3, 4], [0, 1])
    yield any_reached(world, 2 * log_end(world))
    assert highest_mark(world, [2, 3, 4]) > highest_mark(world, [0, 1]), "the minority commits"
    world.network.heal()
    yield all_reached(world, 2 * log_end(world))


def back_to_back(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    world.network.isolate(old.id)
    yield led_by_another(world, old)
    world.network.heal()
    world.network.isolate(leader_of(world).id)
    yield any_reached(world, highest_mark(world) + 10)


def data_loss(world: World) -> Iterator[Goal]:
    """A leader loses its disk, and comes back empty once another leads and commits."""
    yield from begin(world)
    yield any_reached(world, 10)
    victim = leader_of(world)
    world.lose_power(victim)
    yield led_by_another(world, victim)
    yield leader_agreed(world)
    # The new leader's first own commit rests on nothing that the lost disk had promised.
    yield any_reached(world, log_end(world) + 1)
    target = highest_mark(world) + 10
    victim.lose_disk(0)
    world.start(victim)
    yield all_reached(world, target)


def ping_pong(world: World) -> Iterator[Goal]:
    """KIP-996: without pre-votes the leadership would go back and forth between 2 and 3.

    0 hears only 2, 1 hears only 3, and 2, 3, 4 hear each other.
    """
    for one, deaf in ((0, [1, 3, 4]), (1, [0, 2, 4]), (2, [1]), (3, [0]), (4, [0, 1])):
        world.network.cut([one], deaf)
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    majority = {2: [0, 2, 3, 4], 3: [1, 2, 3, 4], 4: [2, 3, 4]}
    yield any_reached(world, 10)
    leader = leader_of(world)
    yield all_reached(world, 20, majority[leader.id])
    expect_to_stay(world, leader)
    yield passing(3 * world.setting.raft.fetch_timeout_ms)


# Our own ------------------------------------------------------------------------------------------


def cut_off_leader(world: World) -> Iterator[Goal]:
    """Q11: a leader without a majority resigns in time; meanwhile it answers no read (P5)."""
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    world.network.isolate(old.id)
    limit = world.setting.raft.fetch_timeout_ms * 3 // 2 + 50
    yield Goal("the leader resigns", lambda: old.id not in world.leaders, limit)
    world.saw("zombie leader resigned")
    world.network.heal()
    yield from heal_and_serve(world)


def late_copies(world: World) -> Iterator[Goal]:
    """P5: a leader whose answers are lost hears copies of old fetches; they prove nothing."""
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    world.network.calm = False
    world.network.duplicates, world.network.delay_ms = 300, 3000
    yield passing(1500)
    world.network.cut([old.id], world.replicas)
    yield passing(7000)
    yield from heal_and_serve(world)


def cut_off_follower(world: World) -> Iterator[Goal]:
    """P2: a voter that hears all but the leader, and lacks nothing, deposes nobody."""
    yield from begin(world)
    yield all_reached(world, 10)
    world.workload.stop()
    yield Goal("all logs are the same", lambda: converged(world), 5000)
    leader = leader_of(world)
    deaf = world.chance("script").pick([i for i in range(world.setting.voters) if i != leader.id])
    world.network.cut([leader.id], [deaf])
    world.network.cut([deaf], [leader.id])
    expect_to_stay(world, leader)
    yield passing(3 * world.setting.raft.fetch_timeout_ms)


def quiet(world: World) -> Iterator[Goal]:
    """I15: nothing goes wrong, for long, with and without anything to do."""
    yield from begin(world)
    yield passing(world.setting.request_timeout_ms)
    expect_to_stay(world, leader_of(world))
    yield passing(2000)
    world.workload.stop()
    yield passing(3 * world.setting.raft.fetch_timeout_ms)


def mixture(world: World) -> Iterator[Goal]:
    """Faults of the seed's choice; then they stop, and everything must be well again."""
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    faults.schedule(world, world.plan)
    yield passing(MIXTURE_MS)
    yield from heal_and_serve(world)


MIXTURE_MS = 12_000


def heal_and_serve(world: World) -> Iterator[Goal]:
    """Everything runs and is heard: the quorum commits, converges, answers, and is still."""
    faults.heal(world)
    ends = log_end(world)
    acknowledged = world.workload.acknowledged
    yield leader_agreed(world).replace(within_ms=HEALING_MS)
    yield all_reached(world, ends).replace(within_ms=HEALING_MS)
    yield Goal(
        "a client's append is committed",
        lambda: world.workload.acknowledged > acknowledged,
        HEALING_MS,
    )
    world.workload.slow_down()
    # What was lost on the way is noticed within these times, and may still move somebody.
    yield passing(world.setting.request_timeout_ms + world.setting.raft.fetch_timeout_ms)
    yield leader_agreed(world).replace(within_ms=HEALING_MS)
    expect_to_stay(world, leader_of(world))
    reads = world.workload.reads_answered
    world.workload.read_at(leader_of(world))
    yield Goal("a read is answered", lambda: world.workload.reads_answered > reads, 2000)
    yield passing(world.setting.raft.fetch_timeout_ms * 3 // 2 + 500)
    world.workload.stop()
    yield Goal("all logs are the same", lambda: converged(world), 5000)


def converged(world: World) -> bool:
    ends = {(replica.disk.end, replica.disk.chains[-1]) for replica in world.running}
    return len(ends) == 1 and set(world.high_watermarks().values()) == {log_end(world)}


def expect_to_stay(world: World, leader: Replica) -> None:
    for invariant in world.invariants:
        if isinstance(invariant, StableLeader):
            assert leader.core is not None
            invariant.must_stay = (leader.id, leader.core.election.epoch)


# Their settings -----------------------------------------------------------------------------------


def kafka_setting(low: int, high: int, most_observers: int) -> Callable[[Chance], Setting]:
    """As many voters and observers as Kafka's property allows, in Kafka's times."""

    def draw(chance: Chance) -> Setting:
        return Setting(
            voters=chance.between(low, high),
            observers=chance.between(0, most_observers),
            raft=KAFKA_TIMES,
        )

    return draw


def reading_setting(chance: Chance) -> Setting:
    """In Kafka's times, with clients that read."""
    return kafka_setting(3, 5, 2)(chance).replace(append_gap_ms=(5, 20), read_gap_ms=(5, 30))


def any_setting(chance: Chance) -> Setting:
    """Our own defaults or Kafka's, quick or slow networks and disks, busy or idle clients."""
    slow = chance.below(3)
    raft = chance.pick([RaftConfig(), KAFKA_TIMES])
    return Setting(
        voters=chance.pick([1, 2, 3, 3, 3, 4, 5, 5]),
        observers=chance.below(3),
        raft=raft,
        network_ms=chance.pick([(1, 6), (0, 2), (5, 60)]),
        disk_ms=(0, 0) if slow == 0 else (1, chance.pick([2, 10, 40])),
        append_gap_ms=chance.pick([(5, 20), (10, 100), (50, 500)]),
        read_gap_ms=chance.pick([(20, 100), (100, 800)]),
        request_timeout_ms=chance.pick([1000, 2000, 3000]),
        batches_per_fetch=chance.pick([1000, 1000, 3, 1]),
    )


SCENARIOS: dict[str, tuple[Callable[[Chance], Setting], Script]] = {
    "initial-leader": (kafka_setting(1, 5, 5), initial_leader),
    "leader-failure": (kafka_setting(3, 5, 5), leader_failure),
    "all-killed": (kafka_setting(1, 5, 5), all_killed),
    "leader-partitioned": (kafka_setting(3, 5, 5), leader_partitioned),
    "majority-reachable": (kafka_setting(5, 5, 3), majority_reachable),
    "back-to-back": (kafka_setting(3, 5, 5), back_to_back),
    "data-loss": (kafka_setting(3, 5, 2), data_loss),
    "ping-pong": (kafka_setting(5, 5, 0), ping_pong),
    "cut-off-leader": (reading_setting, cut_off_leader),
    "late-copies": (reading_setting, late_copies),
    "cut-off-follower": (kafka_setting(3, 5, 2), cut_off_follower),
    "quiet": (any_setting, quiet),
    "mixture": (any_setting, mixture),
}
#: The seven that both simulators play, for comparing their speed.
KAFKA_MIX = tuple(SCENARIOS)[:7]

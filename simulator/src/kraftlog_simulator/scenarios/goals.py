"""The goals of scripts, and the beginning and end that many scripts share."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.faults import fault_plan
from kraftlog_simulator.invariants.stable_leader import StableLeader
from kraftlog_simulator.world import Goal, World, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kraftlog_simulator.process import Replica

    Script = Callable[[World], Iterator[Goal]]

#: How long a goal may take, unless it has its own limit. Kafka's simulation allows 500,000 events,
#: about four minutes of its virtual time.
DEFAULT_TIMEOUT_MS = 60_000
#: How long after the last fault the quorum must have recovered.
HEALING_MS = 20_000


def leader_agreed(world: World) -> Goal:
    return Goal(
        "all agree on a leader", lambda: world.agreed_leader() is not None, DEFAULT_TIMEOUT_MS
    )


def all_reached(world: World, offset: int, among: Iterable[int] | None = None) -> Goal:
    """All replicas `able_to_follow`, or those in `among`, have committed all before `offset`."""
    chosen = None if among is None else set(among)

    def met() -> bool:
        high_watermarks = world.high_watermarks()
        return all(
            high_watermark >= offset
            for replica_id, high_watermark in high_watermarks.items()
            if chosen is None or replica_id in chosen
        )

    return Goal(f"{sorted(chosen) if chosen else 'all'} commit {offset}", met, DEFAULT_TIMEOUT_MS)


def any_reached(world: World, offset: int) -> Goal:
    return Goal(
        f"some replica commits {offset}",
        lambda: max(world.high_watermarks().values(), default=0) >= offset,
        DEFAULT_TIMEOUT_MS,
    )


def led_by_another(world: World, old: Replica) -> Goal:
    def met() -> bool:
        leader = world.leader()
        return leader is not None and leader is not old

    return Goal(f"a replica other than {old.id} leads", met, DEFAULT_TIMEOUT_MS)


def log_end(world: World) -> int:
    """The end of the longest log."""
    return max(replica.disk.end for replica in world.replicas.values())


def highest_high_watermark(world: World, among: Iterable[int] | None = None) -> int:
    high_watermarks = world.high_watermarks()
    return max(
        [high_watermarks.get(replica_id, 0) for replica_id in (among or high_watermarks)], default=0
    )


def leader_of(world: World) -> Replica:
    leader = world.leader()
    assert leader is not None, "an earlier goal was that there is a leader"
    return leader


def begin(world: World) -> Iterator[Goal]:
    """Start all replicas and the clients; wait for a leader."""
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    yield leader_agreed(world)


def majority_continues(world: World) -> Goal:
    """All machines lose power; a bare majority restarts and must commit new records."""
    target = highest_high_watermark(world) + 10
    for replica in world.replicas.values():
        world.lose_power(replica)
    for replica_id in range(world.voters.majority):
        world.start(world.replicas[replica_id])
    return all_reached(world, target)


# The end of a run --------------------------------------------------------------------------------


def heal_and_serve(world: World) -> Iterator[Goal]:
    """Without faults the quorum commits, converges, responds, and becomes idle."""
    fault_plan.heal(world)
    world.administrator.stop()
    end = log_end(world)
    acknowledged = world.workload.acknowledged
    yield leader_agreed(world).replace(within_ms=HEALING_MS)
    yield all_reached(world, end).replace(within_ms=HEALING_MS)
    yield Goal(
        "a client's append is committed",
        lambda: world.workload.acknowledged > acknowledged,
        HEALING_MS,
    )
    yield voter_changes_settled(world).replace(within_ms=HEALING_MS)
    world.workload.slow_down()
    # Replicas notice lost messages within these timeouts, and may still elect another leader.
    yield time_passes(world.setting.request_timeout_ms + world.setting.raft.fetch_timeout_ms)
    yield leader_agreed(world).replace(within_ms=HEALING_MS)
    expect_to_stay(world, leader_of(world))
    reads = world.workload.reads_done
    world.workload.read_at(leader_of(world))
    yield Goal("a read is answered", lambda: world.workload.reads_done > reads, 2000)
    yield time_passes(world.setting.raft.fetch_timeout_ms * 3 // 2 + 500)
    world.workload.stop()
    yield Goal("all logs are the same", lambda: converged(world), 5000)


def voter_changes_settled(world: World) -> Goal:
    """Every voter change was made or rolled back, and all replicas know the outcome."""

    def met() -> bool:
        leader = world.agreed_leader()
        if leader is None or not world.administrator.is_idle:
            return False
        assert leader.core is not None
        log = leader.core.log
        newest = log.voters.committed(log.high_watermark)
        return newest.targets is None and all(
            replica.core is not None and replica.core.log.voter_set == newest
            for replica in world.able_to_follow
        )

    return Goal("no voter change is in progress", met, DEFAULT_TIMEOUT_MS)


def converged(world: World) -> bool:
    """Whether all logs are equal and committed to their end."""
    ends = {(replica.disk.end, replica.disk.chains[-1]) for replica in world.able_to_follow}
    return len(ends) == 1 and set(world.high_watermarks().values()) == {log_end(world)}


def expect_to_stay(world: World, leader: Replica) -> None:
    for invariant in world.invariants:
        if isinstance(invariant, StableLeader):
            assert leader.core is not None
            invariant.must_stay = (leader.id, leader.core.election.epoch)

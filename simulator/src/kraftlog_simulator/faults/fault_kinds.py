"""The kinds of faults. Each takes the world, its own random generator, and its duration."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.faults.disk_faults import DAMAGE_KINDS, DISK_KINDS
from kraftlog_simulator.faults.fault_targets import end_fault, some_ids, some_replica
from kraftlog_simulator.faults.foreign_requests import send_foreign_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng

    Kind = Callable[[SimulatedWorld, Rng, int], None]


# The network -------------------------------------------------------------------------------------


def lose_messages(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    _set_rate(world, "loss", rng.between(5, 300), for_ms)


def duplicate_messages(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    _set_rate(world, "duplicates", rng.between(5, 500), for_ms)


def delay_messages(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Delay some messages by so much that others overtake them."""
    world.network.delay_ms = rng.between(5, 400)
    _set_rate(world, "delayed", rng.between(20, 1000), for_ms)


def corrupt_responses(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Corrupt some fetch responses, in one of the ways that `corruption` lists."""
    _set_rate(world, "corrupt_permille", rng.between(20, 600), for_ms)


def _set_rate(world: SimulatedWorld, name: str, permille: int, for_ms: int) -> None:
    network = world.network
    assert hasattr(network, name), f"the network has no rate {name!r}"
    network.calm = False
    setattr(network, name, permille)
    world.schedule(world.time + for_ms, setattr, network, name, 0)


def cut_one_way(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    cut_for(world, [(a, b) for a in some_ids(world, rng) for b in some_ids(world, rng)], for_ms)


def isolate_one(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    alone = some_replica(world, rng).id
    cut_for(world, _between([alone], [other for other in world.replicas if other != alone]), for_ms)


def split_in_two(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    side = some_ids(world, rng)
    cut_for(world, _between(side, [other for other in world.replicas if other not in side]), for_ms)


def split_with_bridge(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Two halves that do not reach each other, and one replica that reaches both."""
    bridge = some_replica(world, rng).id
    side = [replica_id for replica_id in some_ids(world, rng) if replica_id != bridge]
    others = [other for other in world.replicas if other not in side and other != bridge]
    cut_for(world, _between(side, others), for_ms)


def majority_ring(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - one interface for all faults
    """In a ring, replicas reach only their neighbours: each of five reaches another majority."""
    ring = list(world.replicas)
    reach = max(len(ring) // 4, 1)
    far = [
        (ring[a], ring[b])
        for a in range(len(ring))
        for b in range(len(ring))
        if min((a - b) % len(ring), (b - a) % len(ring)) > reach
    ]
    cut_for(world, far, for_ms)


def flap(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """One replica is disconnected and reconnected, again and again."""
    alone = some_replica(world, rng).id
    cuts = _between([alone], [other for other in world.replicas if other != alone])
    period = 20 + rng.below(400)
    for start in range(0, for_ms, 2 * period):
        world.schedule(world.time + start, cut_for, world, cuts, period)


def clog(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """In some directions the network holds all messages back, and then delivers them at once."""
    world.network.calm = False
    until = world.time + for_ms
    for source in some_ids(world, rng):
        for target in some_ids(world, rng):
            world.network.clogged[source, target] = until


def reset_connections(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    for _ in range(1 + rng.below(10)):
        pair = [some_replica(world, rng), some_replica(world, rng)]
        world.schedule(world.time + rng.below(for_ms), world.network.reset, *pair)


def respond_late(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Responses arrive after their requests timed out, while newer ones are in flight."""
    _set_rate(world, "late_responses", rng.between(50, 700), for_ms)


def refuse_falsely(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Running processes seem to be down: one to another, one to all, or all to each other."""
    replicas = list(world.replicas.values())
    victim, choice = some_replica(world, rng), rng.below(3)
    for _ in range(1 + rng.below(4)):
        when = world.time + rng.below(for_ms)
        pairs = [(other, victim) for other in replicas]
        if choice == 0:
            pairs = [rng.pick(pairs)]
        elif choice == 1:
            pairs = [(source, target) for source in replicas for target in replicas]
        for source, target in pairs:
            world.schedule(
                when, _unless_healed, world, world.network.refuse_falsely, source, target
            )


def _between(side: list[int], other_side: list[int]) -> list[tuple[int, int]]:
    """All directions from one side to the other, and back."""
    return [pair for a in side for b in other_side for pair in ((a, b), (b, a))]


def cut_for(world: SimulatedWorld, cuts: list[tuple[int, int]], for_ms: int) -> None:
    if not world.healed:
        world.network.calm = False
        world.network.cuts.update(cuts)
        world.schedule(world.time + for_ms, world.network.cuts.difference_update, cuts)


# Processes ---------------------------------------------------------------------------------------


def kill(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    world.kill(victim)
    world.schedule(world.time + for_ms, world.start, victim)


def lose_power(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    world.lose_power(victim)
    world.schedule(world.time + for_ms, world.start, victim)


def lose_power_everywhere(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """All machines lose power at once; they restart one by one."""
    for victim in world.replicas.values():
        world.lose_power(victim)
        world.schedule(world.time + rng.below(for_ms), world.start, victim)


def crash_loop(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    period = 10 + rng.below(500)
    for start in range(0, for_ms, 2 * period):
        world.schedule(world.time + start, _unless_healed, world, world.kill, victim)
        world.schedule(world.time + start + period, world.start, victim)


def crash_between_actions(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    world.crash_permille[victim.id] = rng.between(1, 30)
    world.schedule(world.time + for_ms, end_fault, world.crash_permille, victim)


def shut_down(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """A clean shutdown: the replica resigns, and ends some time later."""
    victim = some_replica(world, rng)
    if victim.core is not None and not victim.paused:
        victim.shut_down()
        world.schedule(world.time + rng.below(500), _unless_healed, world, world.kill, victim)
        world.schedule(world.time + 500 + for_ms, world.start, victim)


def pause(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """A process pauses, sometimes beyond every timeout; then all held messages arrive at once."""
    victim = some_replica(world, rng)
    if victim.core is not None and not victim.paused:
        victim.paused = True
        pause_ms = for_ms if rng.below(2) else for_ms + 5000
        world.schedule(world.time + pause_ms, resume, victim, victim.incarnation)


def resume(victim: Replica, incarnation: int) -> None:
    if victim.paused and victim.incarnation == incarnation:
        victim.resume()


def _unless_healed(world: SimulatedWorld, act: Callable[..., None], *replicas: Replica) -> None:
    if not world.healed:
        act(*replicas)


# Clocks and other faults --------------------------------------------------------------------------


def skew_clock(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    rate = rng.between(900, 1100) if rng.below(3) else rng.between(300, 3000)
    victim.set_rate(rate)
    world.schedule(world.time + for_ms, victim.set_rate, 1000)


def jump_wall_clock(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    victim = some_replica(world, rng)
    victim.wall_offset_ms += (rng.below(2) * 2 - 1) * for_ms * 100


def tiny_fetches(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - one interface for all faults
    world.batches_per_fetch = 1
    world.schedule(world.time + for_ms, _restore_fetch_size, world)


def _restore_fetch_size(world: SimulatedWorld) -> None:
    if not world.healed:
        world.batches_per_fetch = world.setting.batches_per_fetch


def scatter_foreign_requests(world: SimulatedWorld, rng: Rng, for_ms: int) -> None:
    """Replicas get requests of another cluster, or for another directory than theirs."""
    for _ in range(1 + rng.below(20)):
        world.schedule(world.time + rng.below(for_ms), send_foreign_request, world, rng)


#: Faults that neither corrupt data nor give false information about peers.
COMMON_KINDS: dict[str, Kind] = {
    "loss": lose_messages,
    "duplicates": duplicate_messages,
    "delay": delay_messages,
    "one-way": cut_one_way,
    "isolate": isolate_one,
    "split": split_in_two,
    "bridge": split_with_bridge,
    "ring": majority_ring,
    "flap": flap,
    "clog": clog,
    "reset": reset_connections,
    "kill": kill,
    "power": lose_power,
    "blackout": lose_power_everywhere,
    "crash-loop": crash_loop,
    "crash-point": crash_between_actions,
    "shutdown": shut_down,
    "pause": pause,
    **DISK_KINDS,
    "clock-rate": skew_clock,
    "wall-clock": jump_wall_clock,
    "tiny-fetches": tiny_fetches,
    "foreign-requests": scatter_foreign_requests,
}
CORRUPTION_KINDS: dict[str, Kind] = {"corrupt-responses": corrupt_responses, **DAMAGE_KINDS}
#: Faults with false information about peers.
FALSE_INFORMATION: dict[str, Kind] = {
    "late-answers": respond_late,
    "false-refusals": refuse_falsely,
}
KINDS = {**COMMON_KINDS, **CORRUPTION_KINDS, **FALSE_INFORMATION}

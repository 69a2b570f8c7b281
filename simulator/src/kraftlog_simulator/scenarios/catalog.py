"""The named scenarios: those of Kafka's simulation, kraftlog's own, and random faults.

A scenario draws its setting from the seed; its script controls the run and states what must happen.
`docs/change/simulator-scenarios.md` has their sources.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator import snapshot_host
from kraftlog_simulator.faults import fault_plan
from kraftlog_simulator.readers import Readers
from kraftlog_simulator.scenarios.contact_scenarios import CONTACT_SCENARIOS
from kraftlog_simulator.scenarios.goals import (
    HEALING_MS,
    all_reached,
    any_reached,
    begin,
    converged,
    expect_to_stay,
    heal_and_serve,
    highest_high_watermark,
    leader_agreed,
    leader_of,
    led_by_another,
    log_end,
    majority_continues,
)
from kraftlog_simulator.scenarios.rare_scenarios import (
    impatient_setting,
    late_copies,
    late_farewell,
    late_responses,
    late_setting,
    leader_seems_down,
    light_load_setting,
    parted_logs,
)
from kraftlog_simulator.scenarios.snapshot_scenarios import SNAPSHOT_SCENARIOS
from kraftlog_simulator.scenarios.voter_scenarios import VOTER_SCENARIOS
from kraftlog_simulator.setting import any_setting, kafka_setting, reading_setting
from kraftlog_simulator.world import Goal, World, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.scenarios.goals import Script
    from kraftlog_simulator.setting import Setting

# Kafka's scenarios --------------------------------------------------------------------------------


def initial_leader(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield all_reached(world, 10)


def leader_failure(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    if world.rng("script").below(2):
        old.shut_down()
        yield time_passes(10)
    world.kill(old)
    yield all_reached(world, 20)
    target = highest_high_watermark(world) + 10
    world.start(old)
    yield all_reached(world, target)


def all_killed(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    yield majority_continues(world)


def leader_partitioned(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    world.network.isolate(old.id)
    yield all_reached(
        world, 20, [replica_id for replica_id in world.replicas if replica_id != old.id]
    )


def majority_reachable(world: World) -> Iterator[Goal]:
    """Two of five voters are cut off from the other three; observers hear all of them."""
    yield from begin(world)
    yield any_reached(world, 10)
    world.network.cut([0, 1], [2, 3, 4])
    world.network.cut([2, 3, 4], [0, 1])
    yield any_reached(world, 2 * log_end(world))
    assert highest_high_watermark(world, [2, 3, 4]) > highest_high_watermark(world, [0, 1]), (
        "the minority commits"
    )
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
    yield any_reached(world, highest_high_watermark(world) + 10)


def data_loss(world: World) -> Iterator[Goal]:
    """A leader loses its disk, and returns empty once another leads and commits."""
    yield from begin(world)
    yield any_reached(world, 10)
    victim = leader_of(world)
    world.lose_power(victim)
    yield led_by_another(world, victim)
    yield leader_agreed(world)
    # The new leader's own first commit does not depend on the lost disk.
    yield any_reached(world, log_end(world) + 1)
    target = highest_high_watermark(world) + 10
    victim.lose_disk(0)
    world.start(victim)
    yield all_reached(world, target)


def ping_pong(world: World) -> Iterator[Goal]:
    """KIP-996: without pre-votes leadership would alternate between 2 and 3.

    0 hears only 2, 1 hears only 3, and 2, 3, 4 hear each other.
    """
    for sender, cut_off in ((0, [1, 3, 4]), (1, [0, 2, 4]), (2, [1]), (3, [0]), (4, [0, 1])):
        world.network.cut([sender], cut_off)
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    majority = {2: [0, 2, 3, 4], 3: [1, 2, 3, 4], 4: [2, 3, 4]}
    yield any_reached(world, 10)
    leader = leader_of(world)
    yield all_reached(world, 20, majority[leader.id])
    expect_to_stay(world, leader)
    yield time_passes(3 * world.setting.raft.fetch_timeout_ms)


# Kraftlog's own ----------------------------------------------------------------------------------


def cut_off_leader(world: World) -> Iterator[Goal]:
    """Q11: a leader without a majority resigns in time, whether observers hear it or not."""
    yield from begin(world)
    yield any_reached(world, 10)
    old = leader_of(world)
    side = [old.id]
    if world.rng("script").below(2):
        side += [replica_id for replica_id in world.replicas if replica_id >= world.setting.voters]
    world.network.split(side)
    limit = world.setting.raft.fetch_timeout_ms * 3 // 2 + 50
    yield Goal("the leader resigns", lambda: old.id not in world.leaders, limit)
    world.network.heal()
    yield from heal_and_serve(world)


def cut_off_follower(world: World) -> Iterator[Goal]:
    """P2: a voter that hears all replicas but the leader does not depose the leader."""
    yield from begin(world)
    yield all_reached(world, 10)
    world.workload.stop()
    yield Goal("all logs are the same", lambda: converged(world), 5000)
    leader = leader_of(world)
    cut_off = world.rng("script").pick([i for i in range(world.setting.voters) if i != leader.id])
    world.network.cut([leader.id], [cut_off])
    world.network.cut([cut_off], [leader.id])
    expect_to_stay(world, leader)
    yield time_passes(3 * world.setting.raft.fetch_timeout_ms)


def quiet(world: World) -> Iterator[Goal]:
    """I15: a long run without faults, with and without load."""
    yield from begin(world)
    yield time_passes(world.setting.request_timeout_ms)
    expect_to_stay(world, leader_of(world))
    yield time_passes(2000)
    world.workload.stop()
    yield time_passes(3 * world.setting.raft.fetch_timeout_ms)


def mixture(world: World) -> Iterator[Goal]:
    """Random faults, drawn from the seed; once they stop, the quorum must recover."""
    for replica in world.replicas.values():
        world.start(replica)
    world.workload.begin()
    snapshot_host.take_at_random_times(world)
    world.administrator.begin()
    fault_plan.schedule(world, world.plan)
    yield time_passes(MIXTURE_MS)
    yield from heal_and_serve(world)


def reads_anywhere(world: World) -> Iterator[Goal]:
    """P6: the mixture with clients that read at every replica; in the end all replicas respond."""
    readers = Readers(world)
    yield from mixture(world)
    world.workload.stop()
    yield time_passes(world.setting.raft.read_timeout_ms + world.setting.request_timeout_ms)
    for reader in list(readers.by_replica.values()):
        reads = world.workload.reads_done
        readers.read_at(reader)
        yield Goal(
            f"{reader.replica} answers a read",
            lambda reads=reads: world.workload.reads_done > reads,
            HEALING_MS,
        )


#: New faults begin only within this time.
MIXTURE_MS = 12_000


SCENARIOS: dict[str, tuple[Callable[[Rng], Setting], Script]] = {
    "initial-leader": (kafka_setting(1, 5, 5), initial_leader),
    "leader-failure": (kafka_setting(3, 5, 5), leader_failure),
    "all-killed": (kafka_setting(1, 5, 5), all_killed),
    "leader-partitioned": (kafka_setting(3, 5, 5), leader_partitioned),
    "majority-reachable": (kafka_setting(5, 5, 3), majority_reachable),
    "back-to-back": (kafka_setting(3, 5, 5), back_to_back),
    "data-loss": (kafka_setting(3, 5, 2), data_loss),
    "ping-pong": (kafka_setting(5, 5, 0), ping_pong),
    "cut-off-leader": (reading_setting, cut_off_leader),
    "cut-off-follower": (kafka_setting(3, 5, 2), cut_off_follower),
    "late-copies": (impatient_setting, late_copies),
    "late-farewell": (light_load_setting, late_farewell),
    "parted-logs": (light_load_setting, parted_logs),
    "late-answers": (late_setting, late_responses),
    "seems-removed": (kafka_setting(3, 5, 2), leader_seems_down),
    "quiet": (any_setting, quiet),
    **VOTER_SCENARIOS,
    "mixture": (any_setting, mixture),
    **SNAPSHOT_SCENARIOS,
    "reads-anywhere": (any_setting, reads_anywhere),
    **CONTACT_SCENARIOS,
}
#: Scenarios with random faults, drawn from the seed.
WITH_FAULTS = {"mixture", "reads-anywhere"}
#: Seven scenarios that Kafka's simulation has, too, for comparing the speeds of both simulations.
KAFKA_MIX = tuple(SCENARIOS)[:7]

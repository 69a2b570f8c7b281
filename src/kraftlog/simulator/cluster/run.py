"""The script of a cluster's run."""

from __future__ import annotations

from kraftlog.simulator.cluster import faults
from kraftlog.simulator.cluster.replica_logs import ReplicaLog
from kraftlog.simulator.cluster.setting import any_cluster, some_members
from kraftlog.simulator.cluster.world import ClusterWorld
from kraftlog.simulator.faults import fault_plan
from kraftlog.simulator.rng import Rng
from kraftlog.simulator.scenarios.goals import leader_agreed
from kraftlog.simulator.violation import Violation
from kraftlog.simulator.world import Goal, time_passes
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kraftlog.simulator.cluster.group_member import GroupMember
    from kraftlog.simulator.cluster.producer import Producer
    from kraftlog.simulator.faults.fault_plan import Fault

FAULTS_MS = 8_000
HEALING_MS = 20_000
#: How many requests in a row a stable group serves each of its members.
SERVED = 8
#: The log of a replica in which nothing was ever written.
NOTHING = ReplicaLog()


def begin(world: ClusterWorld) -> Iterator[Goal]:
    """All nodes start, the topics are made, and the clients begin."""
    for replica in world.replicas.values():
        world.start(replica)
    yield leader_agreed(world)
    yield Goal("all brokers are unfenced", lambda: all_unfenced(world), HEALING_MS)
    world.topics.begin()
    yield Goal("the topics exist", lambda: world.topics.is_idle, HEALING_MS)
    for client in (*world.producers, *world.consumers):
        client.take_turn()
    for producer in world.producers:
        producer.begin()
    for member in world.members:
        member.take_turn()
    world.partitions.begin()


def mixture(world: ClusterWorld) -> Iterator[Goal]:
    yield from begin(world)
    world.deleter.take_turn()
    world.deleter.begin()
    fault_plan.schedule(world, world.plan, faults.BY_NAME)
    yield time_passes(FAULTS_MS)
    yield from heal(world)


def heal(world: ClusterWorld) -> Iterator[Goal]:
    """Without faults every partition has its leader and all replicas again, and serves."""
    faults.heal(world)
    yield leader_agreed(world).replace(within_ms=HEALING_MS)
    yield Goal("all brokers are unfenced", lambda: all_unfenced(world), HEALING_MS)
    yield Goal("the topics exist", lambda: is_administered(world), HEALING_MS)
    yield Goal("every partition has a leader", lambda: all_led(world), HEALING_MS)
    yield Goal("every ISR is complete", lambda: all_in_sync(world), HEALING_MS)
    for member in world.members:
        member.served = 0
    yield Goal("the group is stable", lambda: is_stable(world), HEALING_MS)
    for producer in world.producers:
        producer.is_running = False
    for member in world.members:
        member.is_running = False
    yield Goal("no produce request is left", lambda: all(map(is_idle, world.producers)), HEALING_MS)
    yield Goal(
        "no request of a member is left", lambda: not any(map(asks, world.members)), HEALING_MS
    )
    yield Goal("all logs are the same", lambda: all_equal(world), HEALING_MS)
    yield Goal("all is read", lambda: all_read(world), HEALING_MS)
    judge(world)


def is_administered(world: ClusterWorld) -> bool:
    return world.topics.is_idle and world.partitions.is_idle


def is_idle(producer: Producer) -> bool:
    return producer.is_idle


def asks(member: GroupMember) -> bool:
    return member.awaits_response


def is_stable(world: ClusterWorld) -> bool:
    """Every member has its part of one generation, and was served in it again and again."""
    return len({member.generation for member in world.members}) < 2 and all(
        member.served >= SERVED for member in world.members
    )


def all_unfenced(world: ClusterWorld) -> bool:
    known = world.image.brokers
    return all(it in known and not known[it].fenced for it in world.setting.brokers) and all(
        world.replicas[it].was_ready for it in world.setting.brokers
    )


def all_led(world: ClusterWorld) -> bool:
    return all(it.leader >= 0 for it in world.image.partitions.values())


def all_in_sync(world: ClusterWorld) -> bool:
    return all(
        {*it.isr} == {*it.replicas} and not it.reassigning for it in world.image.partitions.values()
    )


def all_equal(world: ClusterWorld) -> bool:
    """Every replica has the same batches, and knows that all of them are committed.

    A leader that resigns may have deleted records that the next one still has.
    """
    for key, it in world.image.partitions.items():
        logs = {node.id: log for node, log in world.logs_of(key)}
        start = max([log.start for log in logs.values()], default=0)
        first = logs.get(it.replicas[0], NOTHING)
        for broker in it.replicas:
            node, log = world.replicas[broker], logs.get(broker, NOTHING)
            if node.core is None:
                return False
            partition = node.node.replica_manager.partitions.get(key)
            if partition is None or partition.high_watermark != log.end:
                return False
            if log.after(start) != first.after(start):
                return False
    return True


def all_read(world: ClusterWorld) -> bool:
    return all(
        consumer.positions.get(key, 0) >= world.committed(key).high_watermark
        and (
            not world.committed(key).high_watermark
            or consumer.epochs.get(key, 0) >= world.first_epoch(key)
        )
        for consumer in world.consumers
        for key in world.keys
    )


def judge(world: ClusterWorld) -> None:
    for key in world.keys:
        log = next((log for _, log in world.logs_of(key)), NOTHING)
        values = [seen for batch in log.batches for seen in batch.values]
        violations = world.history.finish(key, log.start, values, log.first_epoch)
        if violations:
            raise Violation("client history", violations[0])


def prepare(
    seed: int, kinds: Collection[str] | None, trace: Callable[[str], None] | None
) -> tuple[ClusterWorld, Iterator[Goal], tuple[Fault, ...]]:
    """The random cluster of a seed, its script, and its plan of faults."""
    setting = any_cluster(Rng(seed, "setting of cluster"))
    setting = setting.replace(members=some_members(Rng(seed, "group members")))
    world = ClusterWorld(seed, setting, trace)
    return world, mixture(world), faults.draw(seed, FAULTS_MS, kinds)

"""The script of a cluster's run."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster import faults
from kraftlog_simulator.cluster.denied_operations import DeniedHasNoEffect
from kraftlog_simulator.cluster.equal_logs import LogsAreEqual
from kraftlog_simulator.cluster.fenced_brokers import FencedEarlyOnlyIfGone
from kraftlog_simulator.cluster.invariants import MORE_INVARIANTS
from kraftlog_simulator.cluster.liveness.all_invariants import LIVENESS_INVARIANTS
from kraftlog_simulator.cluster.lost_logs import delete_log
from kraftlog_simulator.cluster.replica_logs import ReplicaLog
from kraftlog_simulator.cluster.setting import (
    any_cluster,
    some_in_flight,
    some_log_directories,
    some_members,
    some_session_slots,
    some_snapshot_bytes,
)
from kraftlog_simulator.cluster.unfenced_brokers import ReplayedBeforeUnfenced
from kraftlog_simulator.cluster.world import ClusterWorld
from kraftlog_simulator.faults import fault_plan
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.scenarios.goals import leader_agreed
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kraftlog.metadata.values import PartitionKey
    from kraftlog_simulator.cluster.group_member import GroupMember
    from kraftlog_simulator.cluster.producer import Producer
    from kraftlog_simulator.faults.fault_plan import Fault

#: For how long new faults begin, and how long each goal after the last fault may take.
FAULTS_MS = 8_000
HEALING_MS = 20_000
#: How long the operator waits before it deletes damaged logs, and requests unclean elections.
BEFORE_REPAIR_MS, BEFORE_UNCLEAN_MS = 500, 10_000
#: How many requests in a row of each member must succeed before the group counts as stable.
MIN_SERVED = 8
MORE_INVARIANTS.extend(
    (
        LogsAreEqual,
        ReplayedBeforeUnfenced,
        FencedEarlyOnlyIfGone,
        DeniedHasNoEffect,
        *LIVENESS_INVARIANTS,
    )
)
#: The log of a replica without a log in its files.
EMPTY_LOG = ReplicaLog()


def begin(world: ClusterWorld) -> Iterator[Goal]:
    """Start all nodes, create the topics, and start the clients."""
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
    if world.stranger is not None:
        world.stranger.begin()
        world.access.begin()
    world.deleter.take_turn()
    world.deleter.begin()
    fault_plan.schedule(world, world.plan, faults.ALL_KINDS)
    yield time_passes(FAULTS_MS)
    yield from heal(world)


def access(world: ClusterWorld) -> Iterator[Goal]:
    """The mixture with a client that is denied nearly all that it tries (`stranger`)."""
    yield from mixture(world)
    assert world.stranger is not None
    world.stranger.creates_after_faults = True
    for granted in (True, False):
        world.access.want(granted=granted)
        yield Goal("the ACL is changed", lambda: world.access.is_idle, HEALING_MS)
        yield Goal("it counts everywhere", lambda: all_have_acls(world), HEALING_MS)
        # A request that got no response may change it still: what counts is the ACL that there is.
        world.stranger.was_allowed = not world.image.acls
        yield Goal(
            "the stranger is answered by the ACL",
            lambda: world.stranger.was_allowed == bool(world.image.acls),
            HEALING_MS,
        )


def all_have_acls(world: ClusterWorld) -> bool:
    """Whether every node knows the ACLs that there are."""
    return all(node.node.image.acls == world.image.acls for node in world.replicas.values())


def heal(world: ClusterWorld) -> Iterator[Goal]:
    """Without faults every partition has a leader and a full ISR again, and serves its clients."""
    faults.heal(world)
    yield leader_agreed(world).replace(within_ms=HEALING_MS)
    yield Goal("all brokers are unfenced", lambda: all_unfenced(world), HEALING_MS)
    yield Goal("the topics exist", lambda: is_administered(world), HEALING_MS)
    yield from elect_leaders(world)
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
        "no request of a member is left",
        lambda: not any(map(awaits_response, world.members)),
        HEALING_MS,
    )
    yield Goal("all logs are the same", lambda: all_equal(world), HEALING_MS)
    yield Goal("all is read", lambda: all_read(world), HEALING_MS)
    check_histories(world)


def elect_leaders(world: ClusterWorld) -> Iterator[Goal]:
    """Every partition gets a leader, an unclean one where replicas have lost their logs."""
    yield time_passes(BEFORE_REPAIR_MS)
    delete_damaged_logs(world)
    yield Goal("partitions have leaders", lambda: all_led(world), BEFORE_UNCLEAN_MS, required=False)
    world.operator.elect_leaders(give_up_records(world))
    yield Goal("every partition has a leader", lambda: all_led(world), HEALING_MS)


def delete_damaged_logs(world: ClusterWorld) -> None:
    """The operator deletes the damaged logs that their brokers refuse to open."""
    for broker, key in list(world.kept.lost):
        node = world.replicas[broker]
        if node.core is None:
            continue
        partition = node.node.replica_manager.partitions.get(key)
        if partition is not None and not partition.is_open:
            world.saw("damaged log deleted")
            world.end_now(node)
            delete_log(world, node, key)
            world.start(node)


def give_up_records(world: ClusterWorld) -> list[PartitionKey]:
    """The partitions without a leader; no replica of their ISR or ELR may be able to lead.

    Nor may all replicas, if ISR and ELR are empty, unless nothing was ever committed: a broker that
    ended before it made the folder of a log finds none, as if it were lost.
    """
    keys = []
    for key, partition in world.image.partitions.items():
        if partition.leader >= 0:
            continue
        candidates = {*partition.isr, *partition.elr} or {*partition.replicas}
        kept = {broker for broker in candidates if world.kept.may_lead(broker, key)}
        is_used = world.committed(key).high_watermark > 0
        if is_used and kept and (partition.isr or partition.elr or kept == candidates):
            raise Violation("liveness", f"{partition} has no leader, though {kept} kept its log")
        keys.append(key)
        world.kept.unclean.add(key)
        world.saw("unclean election requested")
    return keys


def is_administered(world: ClusterWorld) -> bool:
    return world.topics.is_idle and world.partitions.is_idle and world.settings.is_idle


def is_idle(producer: Producer) -> bool:
    return producer.is_idle


def awaits_response(member: GroupMember) -> bool:
    return member.awaits_response


def is_stable(world: ClusterWorld) -> bool:
    """All members have assignments of one generation, and their last requests succeeded."""
    return len({member.generation for member in world.members}) < 2 and all(
        member.served >= MIN_SERVED for member in world.members
    )


def all_unfenced(world: ClusterWorld) -> bool:
    registered = world.image.brokers
    return all(
        broker in registered and not registered[broker].fenced for broker in world.setting.brokers
    ) and all(world.replicas[broker].was_ready for broker in world.setting.brokers)


def all_led(world: ClusterWorld) -> bool:
    return all(partition.leader >= 0 for partition in world.image.partitions.values())


def all_in_sync(world: ClusterWorld) -> bool:
    return all(
        {*partition.isr} == {*partition.replicas} and not partition.reassigning
        for partition in world.image.partitions.values()
    )


def all_equal(world: ClusterWorld) -> bool:
    """Whether every replica of each partition has the same batches, all committed.

    Batches before the highest log start are ignored: not all replicas may have deleted them.
    """
    for key, image in world.image.partitions.items():
        logs = {node.id: log for node, log in world.logs_of(key)}
        start = max([log.start for log in logs.values()], default=0)
        first = logs.get(image.replicas[0], EMPTY_LOG)
        for broker in image.replicas:
            node, log = world.replicas[broker], logs.get(broker, EMPTY_LOG)
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


def check_histories(world: ClusterWorld) -> None:
    """Check what clients saw against the final log of each partition."""
    for key in world.keys:
        log = next((log for _, log in world.logs_of(key)), EMPTY_LOG)
        values = [offset_and_value for batch in log.batches for offset_and_value in batch.values]
        violations = world.history.finish(key, log.start, values, log.first_epoch)
        if violations:
            raise Violation("client history", violations[0])


def prepare(
    seed: int,
    kinds: Collection[str] | None,
    trace: Callable[[str], None] | None,
    *,
    has_access_control: bool = False,
) -> tuple[ClusterWorld, Iterator[Goal], tuple[Fault, ...]]:
    """The random cluster of a seed, its script, and its plan of faults."""
    setting = any_cluster(Rng(seed, "setting of cluster"))
    setting = setting.replace(
        members=some_members(Rng(seed, "group members")),
        log_directories=some_log_directories(Rng(seed, "log directories")),
        snapshot_bytes=some_snapshot_bytes(Rng(seed, "snapshot bytes")),
        in_flight=some_in_flight(Rng(seed, "requests in flight")),
        session_slots=some_session_slots(Rng(seed, "slots for fetch sessions")),
        authorizer=has_access_control,
    )
    world = ClusterWorld(seed, setting, trace)
    script = access if has_access_control else mixture
    return world, script(world), faults.draw(seed, FAULTS_MS, kinds)

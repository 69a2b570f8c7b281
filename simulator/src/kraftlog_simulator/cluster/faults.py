"""The faults of a cluster: most faults of a quorum, and some that only a cluster has."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster import changed_settings, directory_moves, emptied_logs, lost_logs
from kraftlog_simulator.cluster.controller_races import race_controllers
from kraftlog_simulator.cluster.isr_races import race_isr
from kraftlog_simulator.cluster.late_requests import LATE_REQUESTS, repeat_late
from kraftlog_simulator.cluster.restart_races import race_restart
from kraftlog_simulator.cluster.unclean_elections import elect_without_disks
from kraftlog_simulator.faults import fault_plan
from kraftlog_simulator.faults.fault_kinds import KINDS, cut_for
from kraftlog_simulator.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.faults.fault_plan import Fault

#: The faults of a quorum, except those that lose synced data: partitions survive few such losses.
CLUSTER_KINDS = (
    "loss",
    "delay",
    "one-way",
    "isolate",
    "split",
    "bridge",
    "ring",
    "flap",
    "clog",
    "reset",
    "kill",
    "power",
    "blackout",
    "crash-loop",
    "crash-point",
    "shutdown",
    "pause",
    "slow-disk",
    "failing-disk",
    "failing-writes",
    "full-disk",
    "clock-rate",
    "wall-clock",
    "corrupt-responses",
    "late-answers",
    "false-refusals",
)


WIPED, CUT_CLIENT, WIPED_CONTROLLER = "wiped-broker", "cut-client", "wiped-controller"
#: How long until it is checked again whether the cluster survives the loss of a node's disk.
RECHECK_MS = 50


def wipe_broker(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A broker that is no voter loses its machine, and returns with an empty disk."""
    brokers = [broker for broker in world.setting.brokers if broker >= world.setting.voters]
    if brokers:
        _lose_machine(world, world.replicas[rng.pick(brokers)], for_ms)


def wipe_controller(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A controller loses its machine, and returns with an empty disk; it may be a broker, too.

    Only if voters are known by their directory ids: the controller returns with a new directory id,
    as an observer, and cannot vote twice.
    """
    victim = world.replicas[rng.below(world.setting.voters)]
    if world.setting.dynamic:
        _lose_machine(world, victim, for_ms)


def _lose_machine(world: ClusterWorld, victim: ClusterNode, for_ms: int) -> None:
    world.lose_power(victim)
    if victim.core is None:  # otherwise its loss of power was postponed
        _wipe_when_survivable(world, victim, victim.incarnation, world.time + for_ms)


def _wipe_when_survivable(
    world: ClusterWorld, victim: ClusterNode, incarnation: int, earliest: int
) -> None:
    if victim.core is not None or victim.incarnation != incarnation or world.healed:
        return
    if world.time < earliest or not world.may_be_wiped(victim):
        world.schedule(
            world.time + RECHECK_MS, _wipe_when_survivable, world, victim, incarnation, earliest
        )
        return
    if victim.id >= world.setting.voters:
        world.saw("broker wiped")
    else:
        world.saw("combined node wiped" if victim.is_broker else "controller wiped")
    world.wipe(victim)


def cut_client(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A client does not reach some brokers, or gets no responses from them, or both."""
    client = rng.pick([*world.producers, *world.consumers, *world.members, world.topics]).id
    brokers = rng.some(world.setting.brokers, 1 + rng.below(len(world.setting.brokers)))
    directions = rng.pick([(True, False), (False, True), (True, True)])
    cuts = [(client, broker) for broker in brokers if directions[0]]
    cut_for(world, cuts + [(broker, client) for broker in brokers if directions[1]], for_ms)


#: What an operator, a disk or a clock may do to brokers, at any moment.
OPERATOR_KINDS = {
    "lost-folder": lost_logs.lose_folder,
    "replaced-disk": lost_logs.replace_disk,
    "cut-log": lost_logs.cut_log,
    "damaged-log": lost_logs.damage_log,
    "emptied-log": emptied_logs.empty_log,
    "changed-minimum": changed_settings.change_minimum,
    "raised-minimum": changed_settings.raise_minimum,
    "changed-levels": changed_settings.change_levels,
    "stepping-clock": changed_settings.step_clock,
    "throttle": changed_settings.throttle,
    "moved-log": directory_moves.move_log,
    "failing-directory": directory_moves.fail_directory,
}
#: Kinds that only runs limited to some kinds have, if they name them: each leads to one bug.
DIRECTED_KINDS = {
    "controller-race": race_controllers,
    "isr-race": race_isr,
    "restart-race": race_restart,
    "away-disks": elect_without_disks,
    "power-after-move": directory_moves.lose_power_after_move,
}
#: Kinds that do not change the rest of a plan: each is drawn from an rng of its own, of this name.
INDEPENDENT_KINDS = {
    WIPED: "wiped brokers",
    CUT_CLIENT: "cut clients",
    WIPED_CONTROLLER: "wiped controllers",
    LATE_REQUESTS: "late requests of brokers",
}
#: All kinds of a cluster, by name.
ALL_KINDS = {
    **KINDS,
    WIPED: wipe_broker,
    CUT_CLIENT: cut_client,
    WIPED_CONTROLLER: wipe_controller,
    **OPERATOR_KINDS,
    LATE_REQUESTS: repeat_late,
    **DIRECTED_KINDS,
}


def draw(seed: int, duration_ms: int, kinds: Collection[str] | None = None) -> tuple[Fault, ...]:
    """The plan of a seed; `kinds` limits it to some kinds of faults.

    Without `kinds`, half of the seeds also have wiped brokers, half have clients that are cut off,
    half have wiped controllers, and half have late requests of brokers. Half have one or two of
    `OPERATOR_KINDS`, and none has `DIRECTED_KINDS`.
    """
    plan = [*fault_plan.draw_faults(Rng(seed, "faults"), CLUSTER_KINDS, duration_ms, kinds)]
    for kind, rng_name in INDEPENDENT_KINDS.items():
        rng = Rng(seed, rng_name)
        if rng.below(2) == 1 if kinds is None else kind in kinds:
            plan += fault_plan.draw_faults(rng, (kind,), duration_ms, (kind,))
    rng = Rng(seed, "operator faults")
    chosen: Collection[str] = rng.some(list(OPERATOR_KINDS), rng.pick([0, 0, 1, 2]))
    if kinds is not None:
        chosen = [kind for kind in (*OPERATOR_KINDS, *DIRECTED_KINDS) if kind in kinds]
    plan += fault_plan.draw_faults(rng, chosen, duration_ms, chosen)
    return fault_plan.in_order(plan)


def heal(world: ClusterWorld) -> None:
    """End all faults; an operator restarts the nodes with a directory or a log that has failed."""
    for node in world.replicas.values():
        node.files.broken.clear()
        node.files.faults.clear()  # one that is planned for an operation still to come
    fault_plan.heal(world)
    changed_settings.end_throttles(world)
    for node in world.replicas.values():
        if node.core is not None and (node.has_failed_directory or node.has_failed_log):
            world.end_now(node)
            world.start(node)

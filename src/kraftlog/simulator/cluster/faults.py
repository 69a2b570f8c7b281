"""The faults of a cluster: those of a quorum that replicas of partitions survive too."""

from __future__ import annotations

from kraftlog.simulator.faults import fault_plan
from kraftlog.simulator.faults.fault_kinds import KINDS
from kraftlog.simulator.rng import Rng
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog.simulator.cluster.node import ClusterNode
    from kraftlog.simulator.cluster.world import ClusterWorld
    from kraftlog.simulator.faults.fault_plan import Fault

#: Disks that lose what was synced are apart: three replicas survive one such loss at most.
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
    "garbled",
    "late-answers",
    "false-refusals",
)


WIPED = "wiped-broker"
#: When it is seen again whether a broker's disk may be lost.
AGAIN_MS = 50


def wipe_broker(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A broker loses its machine, and returns with an empty disk; not one that is a voter."""
    brokers = [broker for broker in world.setting.brokers if broker >= world.setting.voters]
    if brokers:
        victim = world.replicas[rng.pick(brokers)]
        world.lose_power(victim)
        if victim.core is None:
            _wipe(world, victim, victim.incarnation, world.time + for_ms)


def _wipe(world: ClusterWorld, victim: ClusterNode, incarnation: int, when: int) -> None:
    if victim.core is not None or victim.incarnation != incarnation or world.healed:
        return
    if world.time < when or not world.may_be_wiped(victim):
        world.at(world.time + AGAIN_MS, _wipe, world, victim, incarnation, when)
        return
    world.saw("broker wiped")
    world.wipe(victim)


#: All kinds of a cluster, by name.
BY_NAME = {**KINDS, WIPED: wipe_broker}


def draw(seed: int, duration_ms: int, kinds: Collection[str] | None = None) -> tuple[Fault, ...]:
    """The plan of a seed; `kinds` limits it to some kinds of faults.

    Half of the seeds also have wiped disks, drawn apart: the rest of the plan does not depend on
    them.
    """
    wiping = Rng(seed, "wiped brokers")
    wants_wiping = wiping.below(2) == 1 if kinds is None else WIPED in kinds
    plan = [*fault_plan.drawn(Rng(seed, "faults"), CLUSTER_KINDS, duration_ms, kinds)]
    if wants_wiping:
        plan += fault_plan.drawn(wiping, (WIPED,), duration_ms, (WIPED,))
    return fault_plan.in_order(plan)


def heal(world: ClusterWorld) -> None:
    """End all faults; an operator restarts the nodes whose log directory is offline."""
    fault_plan.heal(world)
    for node in world.replicas.values():
        if node.core is not None and node.runner.directory.disk.failure is not None:
            world.end_now(node)
            world.start(node)

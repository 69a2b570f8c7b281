"""The faults of a cluster: those of a quorum that replicas of partitions survive too."""

from __future__ import annotations

from kraftlog.simulator.faults import fault_plan
from kraftlog.simulator.rng import Rng
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog.simulator.cluster.world import ClusterWorld
    from kraftlog.simulator.faults.fault_plan import Fault

#: Disks that lose what was synced are not among them: three replicas survive one such loss at most.
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


def draw(seed: int, duration_ms: int, kinds: Collection[str] | None = None) -> tuple[Fault, ...]:
    """The plan of a seed; `kinds` limits it to some kinds of faults."""
    return fault_plan.in_order(
        fault_plan.drawn(Rng(seed, "faults"), CLUSTER_KINDS, duration_ms, kinds)
    )


def heal(world: ClusterWorld) -> None:
    """End all faults; an operator restarts the nodes whose log directory is offline."""
    fault_plan.heal(world)
    for node in world.replicas.values():
        if node.core is not None and node.runner.directory.disk.failure is not None:
            world.end_now(node)
            world.start(node)

"""Nodes that restart at other addresses: their invariant, and a scenario (R9)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant
from kraftlog_simulator.scenarios.goals import all_reached, begin, heal_and_serve, log_end
from kraftlog_simulator.scenarios.snapshot_scenarios import some_follower

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.nodes.replica import NodeReplica
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.world import Goal, World

#: How many records are committed in each part of the scenario.
SOME_RECORDS = 5


class NewestAddresses(Invariant):
    """A node never goes back to the address of an earlier start of another node (R9).

    Each start of a node has a newer boot timestamp than all before.
    """

    name = "newest addresses"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: By process (replica and incarnation): the recency (epoch, boot timestamp) of the report
        #: of each node that it knows. Processes forget nodes that are no longer members of the
        #: quorum.
        self._recencies: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        #: By replica and number of wipes: the boot timestamp that was last written.
        self._boots: dict[tuple[int, int], int] = {}

    def on_turn(self, replica: NodeReplica) -> None:
        """A turn of this node is over."""
        nodes = replica.node.quorum.known_nodes
        process = replica.id, replica.incarnation
        before = self._recencies.get(process, {})
        after = {node.node_id: node.recency for node in nodes}
        for node_id, recency in after.items():
            if recency < before.get(node_id, recency):
                self.fail(
                    f"replica {replica.id} takes a report of {node_id} from {recency} (epoch, boot "
                    f"timestamp) after one from {before[node_id]}"
                )
        self._recencies[process] = after

    def on_boot(self, replica: NodeReplica, boot_timestamp_ms: int) -> None:
        """A boot timestamp has reached the disk."""
        key = (replica.id, replica.wipes)
        if boot_timestamp_ms <= self._boots.get(key, -1):
            self.fail(
                f"replica {replica.id} starts at {boot_timestamp_ms}, "
                f"and started at {self._boots[key]} before"
            )
        self._boots[key] = boot_timestamp_ms


def moved_voters(world: World) -> Iterator[Goal]:
    """R9: at first only a voter that did not move can lead, and its log has old addresses.

    The clocks of moved nodes are set back, so that only their boot timestamps show which start is
    the newest.
    """
    yield from begin(world)
    yield all_reached(world, log_end(world) + SOME_RECORDS)
    lagging = some_follower(world)
    world.kill(lagging)
    others = [replica for replica in world.replicas.values() if replica is not lagging]
    yield all_reached(world, log_end(world) + SOME_RECORDS, [replica.id for replica in others])
    unmoved = world.rng("moves").pick(others)
    for replica in others:
        world.kill(replica)
    _move(lagging)
    world.start(lagging)
    world.start(unmoved)
    yield all_reached(world, log_end(world) + SOME_RECORDS, [lagging.id, unmoved.id])
    world.saw("moved voter found")
    for replica in others:
        if replica is not unmoved:
            _move(replica)
            world.start(replica)
    yield all_reached(world, log_end(world) + SOME_RECORDS)
    world.kill(unmoved)
    yield all_reached(
        world, log_end(world) + SOME_RECORDS, [replica.id for replica in world.running]
    )
    world.kill(lagging)
    _move(lagging)
    world.start(lagging)
    yield all_reached(
        world, log_end(world) + SOME_RECORDS, [replica.id for replica in world.running]
    )
    world.start(unmoved)
    yield from heal_and_serve(world)


#: How far the clock of a machine is set back when its node moves.
SET_BACK_MS = 100_000


def _move(replica: Replica) -> None:
    replica.change_port()  # type: ignore[attr-defined]  # it is a whole node
    replica.wall_offset_ms -= SET_BACK_MS

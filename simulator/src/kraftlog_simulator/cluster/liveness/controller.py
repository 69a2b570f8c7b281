"""V24: the active controller does what it knows, and every broker reports what others wait for."""

from __future__ import annotations

from typing import NamedTuple

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant

if TYPE_CHECKING:
    from kraftlog.controller.controller import Controller
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import BrokerImage, PartitionImage, PartitionKey
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld


class ReassignmentIsCompleted(ClusterInvariant):
    """V10: the record that brings the last awaited replica into the ISR ends the reassignment.

    If fewer replicas are added than removed, all that remain are awaited.
    """

    name = "no reassignment waits for another change"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._checked: dict[PartitionKey, PartitionImage] = {}

    def on_image(self, image: Image) -> None:
        for key, partition in image.partitions.items():
            if partition.reassigning and self._checked.get(key) is not partition:
                self._checked[key] = partition
                self._check(partition)

    def _check(self, partition: PartitionImage) -> None:
        self.world.saw("reassignment waits")
        left = {*partition.replicas} - {*partition.removing}
        awaited = left if len(partition.adding) < len(partition.removing) else {*partition.adding}
        if awaited <= {*partition.isr} and {*partition.isr} - {*partition.removing}:
            self.fail(
                f"{partition} is still being reassigned, and {sorted(awaited)} are in the ISR"
            )


class LeavingBroker(NamedTuple):
    """A broker that may stop, and when the controller had heard from it."""

    incarnation: int
    controller_epoch: int
    broker_epoch: int
    heard_ms: int


class ControllerAnswers(ClusterInvariant):
    """The active controller decides each request, and responds once all decisions are committed.

    V3: a broker in controlled shutdown may stop once it leads nothing and all others have applied
    that. The next heartbeat that the controller decides on ends its shutdown.
    """

    name = "the controller leaves nothing undone"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        #: By controller and broker.
        self._leaving: dict[tuple[int, int], LeavingBroker] = {}

    def on_turn(self, node: ClusterNode) -> None:
        active = node.node.active_controller
        if active is None or not active.is_idle:
            return
        if active.undecided:
            self.fail(f"{node}: {active.undecided} requests to the controller wait for a decision")
        if not active.is_active:
            return
        quorum = node.node.quorum
        if active.awaits_commit and quorum.applied >= quorum.end:
            self.fail(
                f"{node}: responses wait, although all decisions up to {quorum.end} are applied"
            )
        controller = active.controller
        for broker in controller.state.brokers.values():
            if _is_leaving(broker):
                self._check_leaving(node, active.epoch, controller, broker)

    def _check_leaving(
        self, node: ClusterNode, epoch: int, controller: Controller, broker: BrokerImage
    ) -> None:
        self.world.saw("broker waits to stop")
        state, sessions = controller.state, controller.sessions
        session = sessions.get(broker.id)
        if session is None:
            self.fail(f"{node}: broker {broker.id} is in controlled shutdown without a session")
        others = [sessions.get(each.id) for each in state.brokers.values() if each.active]
        leads = any(partition.leader == broker.id for partition in state.partitions.values())
        if leads or any(
            other.metadata_offset < session.shutdown_offset for other in others if other is not None
        ):
            self._leaving.pop((node.id, broker.id), None)
            return
        now = LeavingBroker(node.incarnation, epoch, broker.epoch, session.heard_ms)
        before = self._leaving.setdefault((node.id, broker.id), now)
        if before[:-1] != now[:-1]:
            self._leaving[node.id, broker.id] = now
        elif now.heard_ms > before.heard_ms:
            self.fail(
                f"{node}: broker {broker.id} may stop, and its heartbeat of {now.heard_ms} did not "
                f"end its shutdown"
            )


class ReplayIsReported(ClusterInvariant):
    """V3: while another broker is in controlled shutdown, a heartbeat follows each replayed batch.

    The leaving broker waits until all others have applied the change of leaders: no other event
    tells the controller that they have.
    """

    name = "no shutdown waits for a periodic heartbeat"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        #: By broker: its process, the applied offset that it has not reported, and since when.
        self._unreported: dict[int, tuple[int, int, int]] = {}
        self._is_any_leaving = False

    def on_image(self, image: Image) -> None:
        self._is_any_leaving = any(map(_is_leaving, image.brokers.values()))

    def on_settled_turn(self, node: ClusterNode) -> None:
        # Also while nobody leaves: what a controller reports to itself is lost with its sessions.
        reported = self.world.reported_offset(node) + 1
        if not self._is_any_leaving:
            return
        lifecycle = node.node.broker_lifecycle
        assert lifecycle is not None
        brokers, registration = node.node.image.brokers, lifecycle.registration
        if (
            registration is None
            or registration.epoch != lifecycle.epoch
            or lifecycle.is_in_flight
            or lifecycle.is_backing_off
            or lifecycle.has_left
            or not any(_is_leaving(broker) and broker.id != node.id for broker in brokers.values())
        ):
            self._unreported.pop(node.id, None)
            return
        applied, now_ms = node.node.quorum.applied, node.node.now.monotonic_ms
        if reported >= applied:
            self._unreported.pop(node.id, None)
            return
        process, offset, since_ms = self._unreported.get(node.id, (-1, 0, 0))
        if process != node.incarnation or reported >= offset:
            self._unreported[node.id] = node.incarnation, applied, now_ms
        elif now_ms > since_ms:
            self.fail(
                f"{node} has applied {offset} offsets at {since_ms}, and has reported only "
                f"{reported}, while another broker waits to stop"
            )


def _is_leaving(broker: BrokerImage) -> bool:
    return broker.in_controlled_shutdown and not broker.fenced

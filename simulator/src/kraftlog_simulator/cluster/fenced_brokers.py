"""The invariant that no broker is fenced for what an earlier process of it did (V2, V23)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant

if TYPE_CHECKING:
    from kraftlog.metadata.values import BrokerImage
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld


class _Sessions:
    """The brokers as one active controller sees them, and since when their sessions last."""

    def __init__(self, incarnation: int, epoch: int) -> None:
        self.process = incarnation, epoch
        self.brokers: dict[int, BrokerImage] = {}
        self.since_ms: dict[int, int] = {}


class FencedEarlyOnlyIfGone(ClusterInvariant):
    """V2, V23: before its session may end, a broker is fenced only if its process has ended.

    A session lasts since the broker was unfenced, or the controller became active. It also ends if
    the process leaves, has lost a directory, or seems to refuse connections: but it must be that
    process, not an earlier one of the same broker.
    """

    name = "only a broker whose process has ended is fenced early"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        #: By controller.
        self._sessions: dict[int, _Sessions] = {}

    def on_turn(self, node: ClusterNode) -> None:
        active = node.node.active_controller
        if active is None or not active.is_active:
            return
        sessions = self._sessions.get(node.id)
        if sessions is None or sessions.process != (node.incarnation, active.epoch):
            sessions = self._sessions[node.id] = _Sessions(node.incarnation, active.epoch)
        now_ms = node.node.now.monotonic_ms
        for broker in active.controller.state.brokers.values():
            before = sessions.brokers.get(broker.id)
            if before is broker:
                continue
            sessions.brokers[broker.id] = broker
            if before is None or before.fenced or before.epoch != broker.epoch:
                sessions.since_ms[broker.id] = now_ms
            elif broker.fenced:
                session_ms = now_ms - sessions.since_ms[broker.id]
                if session_ms < self.world.setting.session_ms:
                    self._check(node, broker, session_ms)

    def _check(self, node: ClusterNode, broker: BrokerImage, session_ms: int) -> None:
        world, process = self.world, self.world.replicas[broker.id]
        if process.core is None:
            return
        lifecycle = process.node.broker_lifecycle
        assert lifecycle is not None
        if (
            lifecycle.incarnation == broker.incarnation_id
            and not lifecycle.wants_to_leave
            and not process.has_failed_directory
            and (broker.id, broker.epoch) not in world.late_requests.want_fence
            and not world.network.has_refused_falsely(broker.id)
        ):
            self.fail(
                f"{node} fences broker {broker.id} {session_ms} ms after its session began, though "
                f"its process, of broker epoch {broker.epoch}, runs and wants no fence"
            )

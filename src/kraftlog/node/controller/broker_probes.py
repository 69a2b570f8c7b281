"""`BrokerProbes`: the active controller's connections that show when a broker's process ends.

It keeps a connection to the inter-broker listener of every other broker that is neither fenced nor
shutting down. When one closes, the host (the process that runs this node) opens another at once;
if that is refused, it reports ConnectionRefused. The refusal shows that the broker's process has
ended, but only if the broker had responded on the former connection; it counts for the broker epoch
of that response. A refused connection of the quorum to a node with the broker's id is evidence,
too, even from before this controller was active: that node may have been the active controller.
"""

from __future__ import annotations

from kraftlog.effects import ResponseReceived, SendRequest
from kraftlog.metadata.changes import BrokerChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.node.channels import PROBE_CHANNEL, TO_CONTROLLERS
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.controller.controller import Controller
    from kraftlog.effects import ConnectionRefused, RequestReport
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import BrokerImage
    from kraftlog.types import Now

TIMEOUT_MS = 5_000
#: First and longest wait before a broker without a connection is probed again.
RETRY_MS, LONGEST_RETRY_MS = 20, 5_000
#: How long a new active controller decides requests before it fences brokers that had failed
#: before it was elected. Fencing changes all partitions of a broker in one decision; the requests
#: that have waited for a controller are small, and arrive within this time.
FIRST_REQUESTS_MS = 20


class _Probe:
    """The connection to one broker in one epoch."""

    __slots__ = ("due_ms", "epoch", "is_answered", "number", "wait_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        #: The request in flight; 0: none.
        self.number = 0
        #: Whether the broker has responded on the current connection.
        self.is_answered = False
        self.due_ms: int | None = 0
        self.wait_ms = RETRY_MS


class BrokerProbes(Part, MetadataPublisher):
    """Probes brokers while this controller is active, and passes on evidence of failures."""

    channels = (PROBE_CHANNEL,)
    name = "broker probes"

    def __init__(
        self,
        node_id: int,
        listener: str,
        controller: Controller,
        metadata: MetadataLoader,
        emit: Callable[[Any], None],
    ) -> None:
        self._node_id = node_id
        self._listener = listener
        self._controller = controller
        self._metadata = metadata
        self._emit = emit
        self._is_active = False
        #: When evidence from before this controller was active is passed on; None: not at all.
        self._earlier_evidence_due_ms: int | None = None
        self._last_number = 0
        self._probes: dict[int, _Probe] = {}
        #: Nodes that refused a quorum connection: broker epoch, and when its last connection ended.
        self._refused_nodes: dict[int, tuple[int, int]] = {}

    # The controller ------------------------------------------------------------------------------

    def controller_began(self, now: Now) -> None:
        self._is_active = True
        for broker in self._metadata.image.brokers.values():
            self._update_probe(broker)
        if self._refused_nodes:
            self._earlier_evidence_due_ms = now.monotonic_ms + FIRST_REQUESTS_MS

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:  # noqa: ARG002 - interface of parts
        """Another controller is active; the connections stay until the brokers close them."""
        self._is_active = False
        self._earlier_evidence_due_ms = None
        self._probes.clear()

    def changed(self, change: Change) -> None:
        if not isinstance(change, BrokerChanged):
            return
        if change.after is None:
            assert change.before is not None, "a change has a state before it or after it"
            self._probes.pop(change.before.id, None)
            self._refused_nodes.pop(change.before.id, None)
        else:
            refused = self._refused_nodes.get(change.after.id)
            if refused is not None and refused[0] != change.after.epoch:
                del self._refused_nodes[change.after.id]
            if self._is_active:
                self._update_probe(change.after)

    def _update_probe(self, broker: BrokerImage) -> None:
        """Probe a broker while it is active; its listener may open a little after unfencing."""
        if not broker.active or broker.id == self._node_id:
            self._probes.pop(broker.id, None)
            return
        probe = self._probes.get(broker.id)
        if probe is None or probe.epoch != broker.epoch:
            self._probes[broker.id] = _Probe(broker.epoch)

    # Probes --------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        dues = [probe.due_ms for probe in self._probes.values() if probe.due_ms is not None]
        if self._earlier_evidence_due_ms is not None:
            dues.append(self._earlier_evidence_due_ms)
        return min(dues, default=None)

    def poll(self, now: Now) -> None:
        due_ms = self._earlier_evidence_due_ms
        if due_ms is not None and due_ms <= now.monotonic_ms:
            self._earlier_evidence_due_ms = None
            self._pass_on_earlier_evidence(now)
        for broker_id, probe in self._probes.items():
            if probe.due_ms is not None and probe.due_ms <= now.monotonic_ms:
                self._send(broker_id, probe, now)

    def _send(self, broker_id: int, probe: _Probe, now: Now) -> None:
        broker = self._metadata.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            probe.due_ms = None
            return
        from kraftlog.wire.messages.api_versions import ApiVersionsRequest

        self._last_number += 1
        probe.number, probe.due_ms = self._last_number, now.monotonic_ms + 2 * TIMEOUT_MS
        self._emit(
            SendRequest(
                channel=PROBE_CHANNEL,
                peer=broker_id,
                host=endpoint.host,
                port=endpoint.port,
                number=probe.number,
                api_key=ApiKey.API_VERSIONS,
                version=0,
                request=ApiVersionsRequest(),
                timeout_ms=TIMEOUT_MS,
            )
        )

    def request_ended(self, report: RequestReport, now: Now) -> None:
        """Take the outcome of a probe."""
        probe = self._probes.get(report.peer)
        if probe is None or probe.number != report.number:
            return
        probe.number = 0
        if isinstance(report, ResponseReceived):
            probe.is_answered, probe.due_ms, probe.wait_ms = True, None, RETRY_MS
        else:
            probe.due_ms = now.monotonic_ms + probe.wait_ms
            probe.wait_ms = min(2 * probe.wait_ms, LONGEST_RETRY_MS)

    # Evidence ------------------------------------------------------------------------------------

    def _pass_on_earlier_evidence(self, now: Now) -> None:
        for broker_id, (epoch, ended_ms) in list(self._refused_nodes.items()):
            if now.monotonic_ms - ended_ms <= self._controller.sessions.timeout_ms:
                self._controller.note_connection_refused(broker_id, epoch, ended_ms, now)

    def peer_down(self, report: ConnectionRefused, now: Now) -> None:
        """A connection has ended, and another was refused."""
        if report.channel in TO_CONTROLLERS:
            broker = self._metadata.image.brokers.get(report.peer)
            if broker is None or report.peer == self._node_id:
                return
            epoch = broker.epoch
            self._refused_nodes[report.peer] = epoch, report.ended_ms
        elif report.channel != PROBE_CHANNEL:
            return
        else:
            probe = self._probes.get(report.peer)
            if probe is None:
                return
            was_answered, probe.is_answered = probe.is_answered, False
            probe.due_ms = now.monotonic_ms + probe.wait_ms
            if not was_answered:
                return
            epoch = probe.epoch
        if self._is_active:
            self._controller.note_connection_refused(report.peer, epoch, report.ended_ms, now)

"""`ControllerChannel`: requests of this node to the active controller.

A request goes to this node's own controller if that is active, else to the quorum's leader.
`send_to` sends a request to any node.
"""

from __future__ import annotations

from kraftlog.effects import ResponseReceived, SendRequest, VersionUnsupported
from kraftlog.errors import ErrorCode
from kraftlog.node.channels import CONTROLLER_CHANNEL, HEARTBEAT_CHANNEL
from kraftlog.node.controller_request import ControllerRequest
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import RequestReport
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.node.controller_request import ForwardedClient, OnDone
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

TIMEOUT_MS = 30_000


class ControllerChannel(Part):
    """`send` calls back with the response; None: no controller, or the outcome is unknown.

    If the controller does not support the request, the response has UNSUPPORTED_VERSION.
    """

    channels = (CONTROLLER_CHANNEL, HEARTBEAT_CHANNEL)

    def __init__(
        self,
        quorum: QuorumDriver,
        local_controller: ActiveController | None,
        emit: Callable[[Any], None],
        attempt: Callable[..., bool],
    ) -> None:
        """`attempt` runs a task: (description, task, *arguments); returns whether it completed."""
        self._attempt = attempt
        self._quorum = quorum
        self._local_controller = local_controller
        self._emit = emit
        self._last_number = 0
        #: The requests to other nodes, by number.
        self._waiting: dict[int, ControllerRequest] = {}
        #: The numbers of those that `send_to` has sent.
        self._to_given_nodes: set[int] = set()
        #: Callbacks that wait for a leader, each once.
        self._waiting_for_leader: dict[Callable[[Now], None], None] = {}

    def send(
        self,
        api_key: int,
        version: int,
        message: Message,
        on_done: OnDone,
        now: Now,
        *,
        channel: str = CONTROLLER_CHANNEL,
        timeout_ms: int = TIMEOUT_MS,
        client: ForwardedClient | None = None,
    ) -> None:
        """Send a request to the active controller, on the connection that `channel` names.

        `client`: if the decision depends on it; another node gets it in an Envelope.
        """
        request = ControllerRequest(api_key, version, message, on_done, self._attempt, client)
        local_controller = self._local_controller
        if local_controller is not None and local_controller.is_active:
            local_controller.decide(request, now)
            return
        leader = self._quorum.leader_id
        address = self._quorum.address_of(leader) if leader >= 0 else None
        if address is None or leader == self._quorum.core.me.id:
            on_done(None, now)
            return
        self._send(channel, leader, address, request, timeout_ms)

    def send_to(
        self,
        peer: int,
        address: tuple[str, int],
        api_key: int,
        message: Message,
        timeout_ms: int,
        on_done: OnDone,
    ) -> None:
        """Send a request to the given node, whether it is the leader or not.

        A change of leadership does not fail it.
        """
        request = ControllerRequest(api_key, APIS[api_key].last, message, on_done, self._attempt)
        self._to_given_nodes.add(self._last_number + 1)
        self._send(CONTROLLER_CHANNEL, peer, address, request, timeout_ms)

    def _send(
        self,
        channel: str,
        peer: int,
        address: tuple[str, int],
        request: ControllerRequest,
        timeout_ms: int,
    ) -> None:
        self._last_number += 1
        self._waiting[self._last_number] = request
        api_key, version, message = request.api_key, request.version, request.message
        if request.client is not None:
            from kraftlog.node.broker.envelopes import envelope_of

            api_key, version, message = ApiKey.ENVELOPE, 0, envelope_of(request, request.client)
        self._emit(
            SendRequest(
                channel=channel,
                peer=peer,
                host=address[0],
                port=address[1],
                number=self._last_number,
                api_key=api_key,
                version=version,
                request=message,
                timeout_ms=timeout_ms,
            )
        )

    def awaits_response(self, api_key: int) -> bool:
        """Whether a request to another node has no response yet."""
        return any(request.api_key == api_key for request in self._waiting.values())

    def wait_for_leader(self, callback: Callable[[Now], None]) -> None:
        """Call back, once, when a leader is next found (`leader_found`)."""
        self._waiting_for_leader[callback] = None

    def stop_waiting(self, callback: Callable[[Now], None]) -> None:
        """Remove a callback that no longer waits."""
        self._waiting_for_leader.pop(callback, None)

    def fail_pending(self, now: Now) -> None:
        """Fail the requests to a former controller, which may never respond."""
        to_controller = [n for n in self._waiting if n not in self._to_given_nodes]
        for request in [self._waiting.pop(number) for number in to_controller]:
            request.respond(None, now)

    def leader_found(self, now: Now) -> None:
        """Call the callbacks that wait for a leader."""
        waiting, self._waiting_for_leader = self._waiting_for_leader, {}
        for callback in waiting:
            self._attempt("retrying a request to the controller", callback, now)

    def request_ended(self, report: RequestReport, now: Now) -> None:
        """Take the outcome of a request to a peer."""
        request = self._waiting.pop(report.number, None)
        self._to_given_nodes.discard(report.number)
        if request is None:
            return
        if isinstance(report, ResponseReceived):
            response = report.response
            if request.client is not None:
                from kraftlog.node.broker.envelopes import response_in

                response = response_in(response, request)
            request.respond(response, now)
        elif isinstance(report, VersionUnsupported):
            request.refuse(ErrorCode.UNSUPPORTED_VERSION, now)
        else:
            request.respond(None, now)

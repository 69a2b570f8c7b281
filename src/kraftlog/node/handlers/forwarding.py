"""Requests that the active controller handles: topics, partitions, configs, ACLs, brokers.

A broker forwards them to the controller and returns its response.

On a controller listener a node that is not the quorum leader responds NOT_CONTROLLER at once: the
sender finds the leader itself. On a broker listener the request waits for an active controller, up
to its timeout.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.access import is_permitted
from kraftlog.node.api_table import handler
from kraftlog.node.controller_request import ForwardedClient
from kraftlog.node.error_responses import error_response
from kraftlog.node.pending_response import FEW_ITEMS, items_of
from kraftlog.steps import free_message_in_steps
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER, ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

#: Backoff before a request is sent again, while there is no active controller.
RETRY_MS = 50
DEFAULT_TIMEOUT_MS = 30_000
#: The APIs whose decisions depend on the client.
FOR_CLIENT = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}


def handle(node: ServingNode, pending: PendingResponse, request: Message, now: Now) -> None:
    timeout_ms = getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS)
    kind = ControllerOnly if pending.connection.serves == CONTROLLER else Forwarded
    kind(node, pending, request, now.monotonic_ms + max(timeout_ms, 0)).start(now)


def _client(node: ServingNode, pending: PendingResponse) -> ForwardedClient | None:
    """The client, if the decision depends on it."""
    assert pending.api is not None
    if pending.api.key in FOR_CLIENT:
        return ForwardedClient.of(pending)
    return node.client_quotas.client_of(pending)


def refuse(pending: PendingResponse, request: Message, code: int) -> None:
    """Respond with an error code."""
    assert pending.api is not None
    pending.respond(error_response(pending.api.key, pending.version, request, code))


class Forwarded:
    """One request that is forwarded to the active controller."""

    __slots__ = (
        "acls",
        "deadline_ms",
        "done",
        "is_uncertain",
        "is_waiting",
        "node",
        "pending",
        "request",
    )

    def __init__(
        self, node: ServingNode, pending: PendingResponse, request: Message, deadline_ms: int
    ) -> None:
        self.node = node
        self.pending = pending
        self.request = request
        self.deadline_ms = deadline_ms
        self.done = False
        self.is_waiting = False
        #: Whether a controller may have carried it out, as one has not answered.
        self.is_uncertain = False
        #: The state of the ACLs that have allowed it.
        self.acls = self._acls_now()
        pending.waiter = self

    def start(self, now: Now) -> None:
        pending = self.pending
        assert pending.api is not None
        self.node.controller_channel.send(
            pending.api.key,
            pending.version,
            self.request,
            self.on_done,
            now,
            client=_client(self.node, pending),
        )

    def on_done(self, response: Any, now: Now) -> None:
        if self.done:
            return
        if response is not None and not has_no_controller(response):
            self._finish()
            if not self.pending.is_forwarded:
                self.node.client_quotas.mutated(self.pending, response)
            items = items_of(response)
            if items > FEW_ITEMS:
                self.node.sliced.run(self.pending, self._respond_in_steps(response, items))
            else:
                self.pending.respond(response)
        elif now.monotonic_ms < self.deadline_ms:
            self.is_uncertain |= response is None
            self.is_waiting = True
            self.node.controller_channel.wait_for_leader(self.retry)
            self.node.wait(self, min(now.monotonic_ms + RETRY_MS, self.deadline_ms))
        else:
            self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def expire(self, now: Now) -> None:
        self.retry(now)

    def retry(self, now: Now) -> None:
        if self.is_waiting and not self.done:
            self._stop_waiting()
            if self.is_uncertain and self.acls != self._acls_now():
                # A denial would say that it had no effect, and it may have had one.
                self._refuse(ErrorCode.REQUEST_TIMED_OUT)
            # It may have waited for long, and the client may have lost its permission meanwhile.
            elif is_permitted(self.node, self.pending, self.request):
                self.start(now)
            else:
                self._finish()

    def _acls_now(self) -> int:
        authorizer = self.node.authorizer
        return authorizer.generation if authorizer is not None else 0

    def cancel(self) -> None:
        """The connection is closed; what the controller decides still takes effect."""
        self._finish()

    def _respond_in_steps(self, response: Any, items: int) -> Iterator[int]:
        yield from self.pending.respond_in_steps(response, items)
        yield from free_message_in_steps(self.request)

    def _refuse(self, code: int) -> None:
        self._finish()
        refuse(self.pending, self.request, code)

    def _finish(self) -> None:
        """Stop waiting, whatever the outcome."""
        self.done = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self.is_waiting:
            self.is_waiting = False
            self.node.controller_channel.stop_waiting(self.retry)


class ControllerOnly(Forwarded):
    """A request on a controller listener; it waits while this node leads but is not active yet."""

    __slots__ = ()

    def start(self, now: Now) -> None:
        if self.node.quorum.is_leader:
            super().start(now)
        else:
            self._refuse(ErrorCode.NOT_CONTROLLER)


class LeaderOnly(Forwarded):
    """A request that only the quorum leader handles: this node, if it becomes the leader."""

    __slots__ = ()

    def start(self, now: Now) -> None:
        active_controller = self.node.active_controller
        if active_controller is None or not active_controller.is_active:
            super().start(now)
            return
        assert self.pending.api is not None
        self._finish()
        handler(self.pending.api.key)(self.node, self.pending, self.request, now)


def has_no_controller(response: Any) -> bool:
    """Whether the node that responded is not the active controller."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results", "filter_results", "entries"):
        parts = getattr(response, name, None)
        if parts:
            return bool(getattr(parts[0], "error_code", 0) == ErrorCode.NOT_CONTROLLER)
    return False

"""Stale and linearizable reads of the metadata, as the request wants (P7).

A stale read is served at once from the metadata that this node has applied. A linearizable one,
requested by a tagged field of our own, waits until the applied metadata includes every change that
was committed when the request arrived; if that is not certain in time, the response has an error
code.
"""

from __future__ import annotations

from functools import wraps

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.node.containment import fail
from kraftlog.node.error_responses import error_response
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.api_table import Handler
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now


def linearizable_on_request(handle: Handler) -> Handler:
    """A handler that waits for a linearizable read if the request's `linearizable` is true."""

    @wraps(handle)
    def handle_when_readable(
        node: ServingNode, pending: PendingResponse, request: Any, now: Now
    ) -> Iterator[int] | None:
        if not request.linearizable:
            return handle(node, pending, request, now)
        pending.waiter = waiting = LinearizableRead(node, pending, request, handle)
        node.linearizable_reads.read(waiting.on_readable, now)
        return None

    return handle_when_readable


class LinearizableRead:
    """A request that waits until this node's metadata may be read."""

    __slots__ = ("_handle", "_node", "_pending", "_request", "done")

    def __init__(
        self, node: ServingNode, pending: PendingResponse, request: Any, handle: Handler
    ) -> None:
        self._node = node
        self._pending = pending
        self._request = request
        self._handle = handle
        self.done = False

    def cancel(self) -> None:
        """The connection is closed."""
        self.done = True

    def on_readable(self, code: int) -> None:
        if self.done:
            return
        self.done = True
        pending = self._pending
        pending.waiter = None
        try:
            self._respond(pending, code)
        except ProtocolError as error:
            pending.connection.fail(error)
        except Exception as error:
            fail(self._node, pending, error)

    def _respond(self, pending: PendingResponse, code: int) -> None:
        assert pending.api is not None, "the API of a served request is known"
        if code != ErrorCode.NONE:
            pending.respond(error_response(pending.api.key, pending.version, self._request, code))
            return
        steps = self._handle(self._node, pending, self._request, self._node.now)
        if steps is not None:
            self._node.sliced.run(pending, steps)

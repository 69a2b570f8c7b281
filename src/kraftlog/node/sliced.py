"""Requests that take many turns: see `slices`.

A handler with much to do returns a generator. A connection delivers no further request while one is
unfinished, so the requests of a client keep their order.

A sliced request reads the current image in each slice: a response about many topics may show one
before a change and another after it, as the responses of two brokers may. A decision about several
things happens within one slice.
"""

from __future__ import annotations

from kraftlog.errors import ProtocolError
from kraftlog.node.access import is_permitted
from kraftlog.node.api_table import handler
from kraftlog.node.containment import contain
from kraftlog.node.slices import Slices, Work
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import decode_request_in_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Buffer

#: A larger request is decoded in steps: it may have thousands of items.
LARGE_REQUEST_BYTES = 8 << 10
#: A larger frame has its own buffer, which is not reused.
GIANT_FRAME_BYTES = 2 << 20


class SlicedRequest(Work):
    """An unfinished request; its pending response cancels it when the connection closes."""

    __slots__ = ("pending", "request")

    def __init__(self, pending: PendingResponse, steps: Iterator[int], request: Any = None) -> None:
        super().__init__(steps)
        self.pending = pending
        #: The request, for `contain`.
        self.request = request


def _advance(request: SlicedRequest, budget: int) -> int:
    """Run a slice, and count its time if a quota limits it."""
    time = request.pending.time
    if time is None or not time.resume():
        return request.advance(budget)
    try:
        return request.advance(budget)
    finally:
        time.pause()


class SlicedRequests(Slices):
    """The sliced work of a `Node`."""

    def __init__(self, node: ServingNode) -> None:
        super().__init__()
        self._node = node

    def run(self, pending: PendingResponse, steps: Iterator[int], request: Any = None) -> None:
        """Begin a request within the turn's budget. Raises what its first slice raises.

        `request`: a Produce or Fetch request; `contain` undoes it if a later slice raises.
        """
        sliced = SlicedRequest(pending, steps, request)
        budget = self._budget_left
        if budget > 0:
            self._budget_left -= _advance(
                sliced, min(budget, self.slice_budget) if self.has_work else budget
            )
        if not sliced.done:
            pending.waiter = sliced
            pending.connection.mute()
            self._waiting.append(sliced)
            self._request_poll()

    def _request_poll(self) -> None:
        self._node.needs_poll = True

    def _continue_request(self) -> None:
        request = self._waiting.popleft()
        if request.is_cancelled:
            return
        self._budget_left -= self._advance(request, self._next_slice_budget())
        if request.done:
            self._finished(request)
        else:
            self._waiting.append(request)

    def _advance(self, request: SlicedRequest, budget: int) -> int:
        pending = request.pending
        try:
            return _advance(request, budget)
        except ProtocolError as error:
            pending.connection.fail(error)
        except Exception as error:
            pending.connection.fail(contain(self._node, pending, error, request.request))
        request.done = True
        return budget

    @staticmethod
    def _finished(request: SlicedRequest) -> None:
        pending = request.pending
        if pending.waiter is request:
            pending.waiter = None
        pending.connection.unmute()


def kept_body(buffer: Buffer, pos: int, end: int) -> tuple[Buffer, int]:
    """A request's body, kept for later turns, and its position; a giant one is not copied."""
    if end - pos > GIANT_FRAME_BYTES and end == len(buffer):
        return buffer, pos
    return bytes(memoryview(buffer)[pos:end]), 0


def read_and_serve(
    node: ServingNode, pending: PendingResponse, body: Buffer, pos: int
) -> Iterator[int]:
    """Decode a large request in steps, then serve it."""
    api = pending.api
    assert api is not None, "the API of a served request is known"
    request = yield from decode_request_in_steps(api.request(), pending.version, body, pos)
    del body
    if not is_permitted(node, pending, request):
        return
    steps = handler(api.key)(node, pending, request, node.now)
    del request  # handlers free the parts that they have processed
    if steps is not None:
        yield from steps

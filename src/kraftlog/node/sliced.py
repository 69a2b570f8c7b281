"""Long work in slices over several turns, so that other clients are served in between.

A handler with much to do returns a generator. Between two `yield`s it does a bounded amount of
work, and it yields the cost in units of about a microsecond. Costs are counted, not measured, so
that a simulation is deterministic. All sliced work of a turn shares one budget; when it is spent,
unfinished requests continue in later turns, round robin. A connection delivers no further request
while one is unfinished, so the requests of a client keep their order.

A sliced request reads the current image in each slice: a response about many topics may have one
as of before a change and another as of after it, like responses of different brokers. A decision
about several things happens within one slice.

The node has long work of its own, too: deciding on and applying many records (`Slices.begin`).
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ProtocolError
from kraftlog.node.api_table import handler
from kraftlog.node.containment import contain
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import decode_request_in_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Buffer

#: Budget of all sliced work in a turn.
A_TURN = 2_000
#: The part of the budget that one piece of work may spend before the next.
A_SHARE = 500
#: A larger frame has its own buffer, which is not reused.
GIANT_FRAME = 2 << 20


class Work:
    """Unfinished work of the node itself: an exception in it ends the node."""

    __slots__ = ("done", "is_cancelled", "steps")

    def __init__(self, steps: Iterator[int]) -> None:
        self.steps = steps
        self.done = False
        self.is_cancelled = False

    def cancel(self) -> None:
        """Drop the generator, which closes its open files."""
        self.is_cancelled = True
        self.steps = iter(())

    def advance(self, budget: int) -> int:
        """Run until the budget is used up or the work is done; returns the cost."""
        spent = 0
        try:
            while spent < budget:
                spent += next(self.steps)
        except StopIteration:
            self.done = True
        return spent


class SlicedRequest(Work):
    """An unfinished request; its pending response cancels it when the connection closes."""

    __slots__ = ("request", "slot")

    def __init__(self, slot: PendingResponse, steps: Iterator[int], request: Any = None) -> None:
        super().__init__(steps)
        self.slot = slot
        #: The request, for `contain`.
        self.request = request


class Slices:
    """The budget of a turn for sliced work of the node itself and of requests.

    Both share the budget, with at least one step each. `has_work`: the next turn continues, even
    without input.
    """

    def __init__(self) -> None:
        self.limit(A_TURN)
        self._own: deque[Work] = deque()
        self._waiting: deque[SlicedRequest] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._own or self._waiting)

    def limit(self, a_turn: int) -> None:
        """The budget of a turn."""
        self.a_turn = self._left = a_turn
        self.a_share = min(a_turn, A_SHARE)

    def begin(self, steps: Iterator[int]) -> Work:
        """Begin work of the node itself; runs one share of it at once, whatever budget is left."""
        work = Work(steps)
        is_alone = not self.has_work and self._left > self.a_share
        self._left -= work.advance(self._left if is_alone else self.a_share)
        if not work.done:
            self._own.append(work)
            self._request_poll()
        return work

    def finish_turn(self) -> bool:
        """Spend the rest of the turn's budget, at least one step of each kind.

        Returns whether work is left.
        """
        if not self.has_work:
            self._left = self.a_turn
            return False
        has_own = bool(self._own)  # its results may be due at once
        while True:
            if self._own:
                self._go_on_with_own()
            if self._waiting:
                self._go_on_with_request()
            if self._left <= 0 or not self.has_work:
                break
        self._left = self.a_turn
        if has_own or self.has_work:
            self._request_poll()
        return True

    def _share(self) -> int:
        return max(min(self._left, self.a_share), 1)

    def _go_on_with_own(self) -> None:
        work = self._own.popleft()
        if work.is_cancelled:
            return
        self._left -= work.advance(self._share())
        if not work.done:
            self._own.append(work)

    def _go_on_with_request(self) -> None:
        """Continue a sliced request; only a node has them."""

    def _request_poll(self) -> None:
        """Request a poll in the next turn."""


class SlicedRequests(Slices):
    """The sliced work of a `Node`."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def run(self, slot: PendingResponse, steps: Iterator[int], request: Any = None) -> None:
        """Begin a request within the turn's budget. Raises what its first slice raises.

        `request`: a Produce or Fetch request; `contain` undoes it if a later slice raises.
        """
        sliced = SlicedRequest(slot, steps, request)
        left = self._left
        if left > 0:
            self._left -= sliced.advance(min(left, self.a_share) if self.has_work else left)
        if not sliced.done:
            slot.waiter = sliced
            slot.connection.hold()
            self._waiting.append(sliced)
            self._request_poll()

    def _request_poll(self) -> None:
        self._node.needs_poll = True

    def _go_on_with_request(self) -> None:
        request = self._waiting.popleft()
        if request.is_cancelled:
            return
        self._left -= self._go_on(request, self._share())
        if request.done:
            self._finished(request)
        else:
            self._waiting.append(request)

    def _go_on(self, request: SlicedRequest, budget: int) -> int:
        slot = request.slot
        try:
            return request.advance(budget)
        except ProtocolError as error:
            slot.connection.fail(error)
        except Exception as error:
            slot.connection.fail(contain(self._node, slot, error, request.request))
        request.done = True
        return budget

    @staticmethod
    def _finished(request: SlicedRequest) -> None:
        slot = request.slot
        if slot.waiter is request:
            slot.waiter = None
        slot.connection.let_go()


def kept_body(buffer: Buffer, pos: int, end: int) -> tuple[Buffer, int]:
    """The body of a request kept for later turns, and its position; a giant one is not copied."""
    if end - pos > GIANT_FRAME and end == len(buffer):
        return buffer, pos
    return bytes(memoryview(buffer)[pos:end]), 0


def read_and_serve(node: Node, slot: PendingResponse, body: Buffer, pos: int) -> Iterator[int]:
    """Decode a large request in steps, then serve it."""
    api = slot.api
    assert api is not None, "the API of a served request is known"
    request = yield from decode_request_in_steps(api.request(), slot.version, body, pos)
    del body
    steps = handler(api.key)(node, slot, request, node.now)
    del request  # handlers free the parts that they have processed
    if steps is not None:
        yield from steps

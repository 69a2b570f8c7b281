"""Requests that take long: they are worked on a slice a turn, and others are served in between.

A handler that may have much to do returns a generator. Between two `yield`s it does a bounded
piece of work, and it yields what that has cost, in units of about a microsecond. Costs are counted,
not measured: the simulator does the same again. All requests of a turn have one budget together.
What is left of a request when that is used up goes on in later turns, each request a share in
turn; its connection hands over no further request meanwhile, so there is at most one of them for
each connection, and a client's requests keep their order.

A request that is sliced reads the image as it is in each slice: an answer about many topics may
tell of one as it was before a change and of another as it is after it, as answers of different
brokers do. What decides or changes more than one thing does so within a slice.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ProtocolError
from kraftlog.node.api_table import handler
from kraftlog.node.containment import contain
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import decoding_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot

#: What the sliced requests of one turn may cost together.
A_TURN = 2_000
#: What one of them may cost before the next has its share.
A_SHARE = 500


class SlicedRequest:
    """A request that is not done yet. Its slot cancels it when the connection is gone."""

    __slots__ = ("done", "is_cancelled", "request", "slot", "steps")

    def __init__(self, slot: Slot, steps: Iterator[int], request: Any = None) -> None:
        self.slot = slot
        self.steps = steps
        #: What `contain` has to know of it.
        self.request = request
        self.done = False
        self.is_cancelled = False

    def cancel(self) -> None:
        """What its generator holds, such as open files, goes with it."""
        self.is_cancelled = True
        self.steps = iter(())

    def advance(self, budget: int) -> int:
        """Work until the budget is used up or the request is done; the cost."""
        spent = 0
        try:
            while spent < budget:
                spent += next(self.steps)
        except StopIteration:
            self.done = True
        return spent


class SlicedRequests:
    """Belongs to a node. `has_work`: the next turn goes on, whether anything comes or not."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._left = A_TURN
        self._waiting: deque[SlicedRequest] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def run(self, slot: Slot, steps: Iterator[int], request: Any = None) -> None:
        """Begin at once, as far as the turn's budget goes. Raises what the first slice raises.

        `request`: a Produce or Fetch, which is taken back if a later slice raises.
        """
        sliced = SlicedRequest(slot, steps, request)
        if self._left > 0:
            self._left -= sliced.advance(min(self._left, A_SHARE) if self._waiting else self._left)
        if not sliced.done:
            slot.waiter = sliced
            slot.connection.hold()
            self._waiting.append(sliced)
            self._node.is_stirred = True

    def finish_turn(self) -> bool:
        """Spend what is left of the turn's budget, but take at least one step; whether anything
        was left undone."""
        waiting = self._waiting
        if not waiting:
            self._left = A_TURN
            return False
        left = max(self._left, 1)
        while waiting and left > 0:
            request = waiting.popleft()
            if request.is_cancelled:
                continue
            left -= self._go_on(request, min(left, A_SHARE))
            if request.done:
                self._finished(request)
            else:
                waiting.append(request)
        self._left = A_TURN
        if waiting:
            self._node.is_stirred = True
        return True

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


def read_and_serve(node: Node, slot: Slot, body: bytes) -> Iterator[int]:
    """A large request: to read it takes more than one step as well."""
    api = slot.api
    assert api is not None, "it is known what is served"
    request = yield from decoding_request(api.request(), slot.version, body)
    del body
    steps = handler(api.key)(node, slot, request, node.now)
    del request  # a handler lets go of what it has done
    if steps is not None:
        yield from steps


def drained(items: Any) -> Iterator[Any]:
    """The items one by one, each let go of as it is taken: no step frees them all at once."""
    waiting = list(items)
    waiting.reverse()
    del items
    while waiting:
        yield waiting.pop()

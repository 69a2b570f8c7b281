"""Requests that change the cluster: topics, partitions, configs, features, brokers.

They are decided by whoever governs; a broker that is asked passes them on and answers for it.

On a controller's listener a node that does not lead says so at once: its askers know where to
look. On a broker's the asker waits, for as long as it says, until somebody governs.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.api_table import handler
from kraftlog.node.error_responses import refusal
from kraftlog.node.pending_response import FEW_ITEMS, items_of
from kraftlog.steps import letting_go_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

#: How soon a request is passed on again that found nobody.
AGAIN_MS = 50
DEFAULT_TIMEOUT_MS = 30_000


def handle(node: Node, slot: PendingResponse, request: Message, now: Now) -> None:
    patience = getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS)
    way = ControllerOnly if slot.connection.listener == CONTROLLER else Forwarded
    way(node, slot, request, now.monotonic_ms + max(patience, 0)).go(now)


def refuse(slot: PendingResponse, request: Message, code: int) -> None:
    assert slot.api is not None
    slot.respond(refusal(slot.api.key, slot.version, request, code))


class Forwarded:
    """One request on its way to whoever governs."""

    __slots__ = ("deadline_ms", "done", "is_waiting", "node", "request", "slot")

    def __init__(
        self, node: Node, slot: PendingResponse, request: Message, deadline_ms: int
    ) -> None:
        self.node = node
        self.slot = slot
        self.request = request
        self.deadline_ms = deadline_ms
        self.done = False
        self.is_waiting = False
        slot.waiter = self

    def go(self, now: Now) -> None:
        slot = self.slot
        assert slot.api is not None
        self.node.controller_channel.ask(
            slot.api.key, slot.version, self.request, self.on_done, now
        )

    def on_done(self, response: Any, now: Now) -> None:
        if self.done:
            return
        if response is not None and not _found_nobody(response):
            self._answer(response)
        elif now.monotonic_ms < self.deadline_ms:
            self.is_waiting = True
            self.node.controller_channel.wait_for_leader(self.again)
            self.node.wait(self, min(now.monotonic_ms + AGAIN_MS, self.deadline_ms))
        else:
            self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def expire(self, now: Now) -> None:
        self.again(now)

    def again(self, now: Now) -> None:
        if self.is_waiting and not self.done:
            self._wait_no_more()
            self.go(now)

    def cancel(self) -> None:
        """The asker is gone; what was decided stays decided."""
        self._finish()

    def _answer(self, response: Any) -> None:
        self._finish()
        items = items_of(response)
        if items > FEW_ITEMS:
            self.node.sliced.run(self.slot, self._answering(response, items))
        else:
            self.slot.respond(response)

    def _answering(self, response: Any, items: int) -> Iterator[int]:
        yield from self.slot.respond_in_steps(response, items)
        yield from letting_go_of(self.request)

    def _refuse(self, code: int) -> None:
        self._finish()
        refuse(self.slot, self.request, code)

    def _finish(self) -> None:
        """Whatever comes of this: nobody is to remember it."""
        self.done = True
        self._wait_no_more()

    def _wait_no_more(self) -> None:
        if self.is_waiting:
            self.is_waiting = False
            self.node.controller_channel.wait_no_more(self.again)


class ControllerOnly(Forwarded):
    """What a controller is asked: one that was just elected will govern in a moment."""

    __slots__ = ()

    def go(self, now: Now) -> None:
        if self.node.quorum.is_leader:
            super().go(now)
        else:
            self._refuse(ErrorCode.NOT_CONTROLLER)


class LeaderOnly(Forwarded):
    """What the leader of the quorum does itself: by the time it is found, that may be this node."""

    __slots__ = ()

    def go(self, now: Now) -> None:
        active_controller = self.node.active_controller
        if active_controller is None or not active_controller.is_active:
            super().go(now)
            return
        assert self.slot.api is not None
        self._finish()
        handler(self.slot.api.key)(self.node, self.slot, self.request, now)


def _found_nobody(response: Any) -> bool:
    """Whether the node that was asked does not govern (any more)."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results"):
        parts = getattr(response, name, None)
        if parts:
            return bool(getattr(parts[0], "error_code", 0) == ErrorCode.NOT_CONTROLLER)
    return False
